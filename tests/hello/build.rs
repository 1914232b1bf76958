//! Leaves out of a function what unwinds its stack, where it is built to end at a panic (profile `lambda`).

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../functions/without-unwinding.ld");
    println!("cargo::rerun-if-changed={script}");
    let is = |name: &str, value: &str| std::env::var_os(name).is_some_and(|found| found == value);
    // Only that profile is built for size, and it ends at a panic, which a build isn't told. Where it was tried.
    if is("OPT_LEVEL", "z") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,--no-eh-frame-hdr");
        println!("cargo::rustc-link-arg-bins=-Wl,-T,{script}");
    }
}
