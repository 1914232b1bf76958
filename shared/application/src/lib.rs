//! Workers, handlers, commands and queries over the ports. Everything that acts reads load, act, decide, commit.

pub mod catalog;
pub mod commands;
pub mod declare;
pub mod finish;
pub mod handlers;
pub mod inputs;
pub mod queries;
pub mod relay;
pub mod settings;
pub mod settle;
pub mod turns;
pub mod work;
pub mod workers;

pub use settings::Settings;
pub use work::{Consumer, Fault, Worker};
