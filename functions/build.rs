//! Leaves out of a function what unwinds its stack, where it is built to end at a panic (profile `lambda`).

use std::path::PathBuf;

fn main() -> std::io::Result<()> {
    println!("cargo::rerun-if-changed=Cargo.toml");
    let is = |name: &str, value: &str| std::env::var_os(name).is_some_and(|found| found == value);
    // Only that profile is built for size, and it ends at a panic, which a build isn't told. Where it was tried.
    if is("OPT_LEVEL", "z") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        let folder = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
        let script = folder.join("without-unwinding.ld");
        std::fs::write(&script, include_str!("without-unwinding.ld"))?;
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{}", script.display());
    }
    Ok(())
}
