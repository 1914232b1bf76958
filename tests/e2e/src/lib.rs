//! Drives the real program from outside: a host process on a data folder of its own, its command line, Git
//! repositories, Pulumi. Nothing here is a stand-in.

mod host;
mod http;
mod poll;
pub mod relayed;
mod repository;
pub mod rights;
pub mod stack;

pub use host::{Answer, HostProcess};
pub use http::Reply;
pub use poll::{poll, until};
pub use repository::{Repository, program};
