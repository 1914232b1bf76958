//! The files by which a controller and a runner elsewhere talk: each is put once, below the job's own folder. The
//! runner reaches nothing else.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use domain::Digest;
use domain::plan::ResolvedRef;
use domain::provisioning_run::Failure;
use events::Program;
use ports::runner_place::JobName;
use ports::{PortError, Receipts};
use process::Exit;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::places::Place;

/// What a runner is asked to do. No secret stands in it.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sheet {
    pub name: JobName,
    pub program: Program,
    /// Plain configuration, by full key.
    pub config: BTreeMap<String, String>,
    /// The identity that the environment names.
    #[serde(default)]
    pub identity: Option<String>,
    /// Secrets by reference and version.
    pub secrets: Vec<ResolvedRef>,
    /// Digest of what the plan rests on.
    pub inputs: Digest,
    /// Name and SHA-256 of each tool that it was ordered for.
    pub tools: BTreeMap<String, String>,
    /// The state to work on is among the files; else the stack is new.
    pub has_state: bool,
    pub deadline: DateTime<Utc>,
}

/// That a job was ordered, or that it never will be. Whoever is first decides.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Ordered {
    pub never: bool,
    pub at: DateTime<Utc>,
    /// Where it runs.
    #[serde(default)]
    pub place: Place,
}

/// What a runner left, put last.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Result {
    /// Why nothing was started.
    pub not_started: Option<Failure>,
    /// How the session ended.
    pub exit: Option<Exit>,
    /// Why there is no end of it.
    pub died: Option<String>,
    /// Every file, by its path below the workspace or the session.
    pub files: BTreeMap<String, Digest>,
}

pub(crate) const SHEET: &str = "in/sheet.json";
pub(crate) const STATE: &str = "in/state.json";
pub(crate) const PLAN: &str = "in/plan.json";
pub(crate) const CONFIG: &str = "in/stack.yaml";
pub(crate) const ORDERED: &str = "in/ordered.json";
pub(crate) const STOP: &str = "in/stop.json";
pub(crate) const CLAIM: &str = "out/claim.json";
pub(crate) const STATES: &str = "out/states";
pub(crate) const FILES: &str = "out/files";
/// Its arrival is what wakes the controller.
pub(crate) const RESULT: &str = "out/result.json";

/// The files of one job.
pub(crate) struct JobFiles<'a> {
    pub files: &'a dyn Receipts,
    pub folder: String,
}

impl JobFiles<'_> {
    pub(crate) fn key(&self, path: &str) -> String {
        format!("{}/{path}", self.folder)
    }

    pub(crate) async fn get(&self, path: &str) -> std::result::Result<Option<Vec<u8>>, PortError> {
        self.files.get(&self.key(path)).await
    }

    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        path: &str,
    ) -> std::result::Result<Option<T>, PortError> {
        let Some(bytes) = self.get(path).await? else { return Ok(None) };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            PortError::broken_by(
                format!("{} can't be read", self.key(path)),
                "another version wrote it: plan again",
                e,
            )
        })
    }

    /// What the runner left at its end; Err where that can't be read, which nobody takes for an end.
    pub(crate) async fn result(
        &self,
    ) -> std::result::Result<Option<std::result::Result<Result, String>>, PortError> {
        let Some(bytes) = self.get(RESULT).await? else { return Ok(None) };
        Ok(Some(serde_json::from_slice(&bytes).map_err(|e| format!("its result can't be read: {e}"))))
    }

    pub(crate) async fn put(&self, path: &str, bytes: &[u8]) -> std::result::Result<ports::Put, PortError> {
        self.files.put_once(&self.key(path), bytes).await
    }

    pub(crate) async fn write(
        &self,
        path: &str,
        value: &impl Serialize,
    ) -> std::result::Result<ports::Put, PortError> {
        let bytes = serde_json::to_vec(value)
            .map_err(|e| PortError::broken_by("a job's file can't be written", "report this", e))?;
        self.put(path, &bytes).await
    }

    /// The paths of the files below a folder of the job, in their order.
    pub(crate) async fn below(&self, folder: &str) -> std::result::Result<Vec<String>, PortError> {
        let begin = format!("{}/", self.folder);
        let keys = self.files.list(&self.key(folder)).await?;
        Ok(keys.iter().filter_map(|k| k.strip_prefix(&begin).map(str::to_owned)).collect())
    }
}

/// A file's path as a part of a key: what keys don't allow is encoded.
pub(crate) fn part(path: &str) -> String {
    domain::aggregate::encode(path)
}
