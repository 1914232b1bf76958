//! The provider as a program of its own; everything is in the library.

fn main() {
    std::process::exit(runtime_cloud_local::serve(std::env::args_os()));
}
