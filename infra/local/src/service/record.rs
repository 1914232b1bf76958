//! What the machine itself knows of a service.

use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::service::Spec;

/// How far the last change came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Phase {
    /// The intent is written; processes are being stopped and started.
    Changing,
    /// As wanted, and answering as far as it was asked.
    Ready,
    /// As wanted, but it didn't answer.
    Unhealthy,
    /// Being deleted.
    Deleting,
    /// Stopped from outside of Pulumi.
    Stopped,
}

/// One process that was started for a replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Started {
    pub(crate) replica: u32,
    #[serde(flatten)]
    pub(crate) id: ProcessId,
}

/// The record of a service; it holds no secret, only a keyed digest that changes with them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Record {
    pub(crate) owner: String,
    #[serde(default)]
    pub(crate) generation: u32,
    pub(crate) phase: Phase,
    pub(crate) spec: Spec,
    pub(crate) secret_names: Vec<String>,
    pub(crate) revision: String,
    // Pids mean nothing after the machine was started anew.
    pub(crate) boot: String,
    pub(crate) processes: Vec<Started>,
}
