//! The command line.

mod client;
mod command_line;
mod demo;
mod environments;
mod events;
mod maintenance;
mod promote;
mod receipts;
mod runs;
mod say;
mod server;
mod table;
mod up;

pub use command_line::{Context, exit, main};
