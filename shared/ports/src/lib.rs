//! What the application needs of the outside: one trait per file, and the one write seam.

pub mod artifacts;
pub mod bus;
pub mod clock;
pub mod commit;
pub mod config_platform;
pub mod cx;
pub mod environment_reader;
pub mod error;
pub mod ids;
pub mod letters;
pub mod policy_engine;
pub mod program_source;
pub mod queue;
pub mod receipts;
pub mod rows;
pub mod runner;
pub mod runner_place;
pub mod secret;
pub mod secret_broker;
pub mod store;
pub mod stored_letter;

pub use artifacts::Artifacts;
pub use bus::Bus;
pub use clock::Clock;
pub use commit::{
    Commit, CommitError, CommitId, Committed, Conflict, Destination, Letter, LetterBody, Op, Row,
};
pub use config_platform::ConfigPlatform;
pub use cx::Cx;
pub use environment_reader::EnvironmentReader;
pub use error::PortError;
pub use ids::Ids;
pub use letters::Letters;
pub use policy_engine::PolicyEngine;
pub use program_source::ProgramSource;
pub use queue::Queue;
pub use receipts::{Put, Receipts};
pub use rows::{Behind, By, Listing, Page, RowRead, Rows};
pub use runner::{RunStopper, Runner};
pub use runner_place::RunnerPlace;
pub use secret::Secret;
pub use secret_broker::SecretBroker;
pub use store::Store;
