//! Benchmarks only: `cargo bench -p runtime-cloud-benches`.
