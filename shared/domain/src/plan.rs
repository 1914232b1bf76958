//! What a plan would do, step by step, and everything that it was made from.

use std::collections::BTreeMap;

use events::{CommitHash, EnvironmentClass, PlanSummary, ReleaseId};
use serde::{Deserialize, Serialize};

use crate::bounds;
use crate::digest::Digest;

/// What happens to one resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum StepOp {
    /// It will be made.
    Create,
    /// It will be changed in place.
    Update,
    /// It will be deleted.
    Delete,
    /// It will be deleted and made anew.
    Replace,
    /// It will be read.
    Read,
    /// It will be taken over.
    Import,
}

impl StepOp {
    /// Whether something that exists goes away. A replace counts as a delete.
    pub const fn deletes(self) -> bool {
        matches!(self, StepOp::Delete | StepOp::Replace)
    }
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlanStep {
    /// The resource's URN.
    pub urn: String,
    /// What happens to it.
    pub op: StepOp,
    /// Its type.
    pub resource_type: String,
    /// Paths of the properties that differ, sorted.
    #[serde(default)]
    pub changed: Vec<String>,
    /// What a reader of the plan has to know of their values: secrets masked, long ones cut. No digest is over them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<StepValue>,
}

/// A value that a step gives or changes, for a reader.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StepValue {
    /// The property's path.
    pub path: String,
    /// Before, as JSON; None where there was none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old: Option<String>,
    /// After, as JSON; None where there will be none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub new: Option<String>,
}

/// One input of a plan by reference and version; never its value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResolvedRef {
    /// The program's key.
    pub key: String,
    /// The name of the value.
    #[serde(rename = "ref")]
    pub reference: String,
    /// Which version of the value was used.
    pub version: String,
}

/// Everything that a plan was made from and that an apply must find unchanged (Rule 13).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BoundInputs {
    /// The program's repository.
    pub repository: String,
    /// The program's folder.
    pub path: String,
    /// The program's commit.
    pub commit: CommitHash,
    /// The release.
    pub release: Option<ReleaseId>,
    /// The strategy.
    pub strategy: Option<String>,
    /// Configuration, with versions.
    pub config: Vec<ResolvedRef>,
    /// Secrets, with versions.
    pub secrets: Vec<ResolvedRef>,
    /// The environment's class.
    pub class: EnvironmentClass,
    /// The identity that the run used, by name.
    pub identity: Option<String>,
    /// Name and SHA-256 of each tool.
    pub tools: BTreeMap<String, String>,
}

impl BoundInputs {
    /// The inputs hash of the plan receipt.
    pub fn hash(&self) -> serde_json::Result<Digest> {
        Digest::of_json(self)
    }

    /// Why they don't fit into a run's row; None where they do.
    pub fn too_large(&self) -> Option<String> {
        let bytes = bounds::written(self);
        let what = "what the plan rests on (references with their versions, the identity's name)";
        (bytes > bounds::INPUTS).then(|| {
            format!(
                "{what} has {bytes} bytes; at most {} are allowed: give fewer or shorter references",
                bounds::INPUTS
            )
        })
    }

    /// Names what differs, for a person; empty where nothing does.
    pub fn differences(&self, now: &BoundInputs) -> Vec<String> {
        let mut out = vec![];
        let mut differ = |what: &str, a: String, b: String| {
            if a != b {
                out.push(format!("{what} was {a} and is {b}"));
            }
        };
        differ("repository", self.repository.clone(), now.repository.clone());
        differ("path", self.path.clone(), now.path.clone());
        differ("commit", self.commit.to_string(), now.commit.to_string());
        differ("release", shown(&self.release), shown(&now.release));
        differ("strategy", shown(&self.strategy), shown(&now.strategy));
        differ("class", self.class.to_string(), now.class.to_string());
        differ("identity", shown(&self.identity), shown(&now.identity));
        refs(&mut out, "configuration", &self.config, &now.config);
        refs(&mut out, "secret", &self.secrets, &now.secrets);
        if self.tools != now.tools {
            out.push("the tools (Pulumi or a language host) changed".to_owned());
        }
        out
    }
}

fn shown(value: &Option<impl ToString>) -> String {
    value.as_ref().map_or_else(|| "unset".to_owned(), ToString::to_string)
}

fn refs(out: &mut Vec<String>, what: &str, before: &[ResolvedRef], now: &[ResolvedRef]) {
    for old in before {
        match now.iter().find(|n| n.key == old.key) {
            None => out.push(format!("{what} {} is gone", old.key)),
            Some(new) if new != old => {
                out.push(format!("{what} {} was version {} and is {}", old.key, old.version, new.version));
            }
            Some(_) => {}
        }
    }
    out.extend(
        now.iter()
            .filter(|n| !before.iter().any(|b| b.key == n.key))
            .map(|n| format!("{what} {} is new", n.key)),
    );
}

/// Counts the steps. `unchanged` comes from the planner; `protected` are the resource types of the policy's list,
/// a type or a prefix that ends with `*`.
pub fn summarise(steps: &[PlanStep], unchanged: u32, digest: &Digest, protected: &[String]) -> PlanSummary {
    let count = |f: &dyn Fn(&PlanStep) -> bool| {
        u32::try_from(steps.iter().filter(|s| f(s)).count()).unwrap_or(u32::MAX)
    };
    PlanSummary {
        adds: count(&|s| matches!(s.op, StepOp::Create | StepOp::Import)),
        changes: count(&|s| s.op == StepOp::Update),
        deletes: count(&|s| s.op == StepOp::Delete),
        replaces: count(&|s| s.op == StepOp::Replace),
        unchanged,
        protected: count(&|s| s.op.deletes() && is_protected(&s.resource_type, protected)),
        digest: digest.to_string(),
        approval_required: None,
    }
}

/// Whether a resource type is on the list.
pub fn is_protected(resource_type: &str, list: &[String]) -> bool {
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => resource_type.starts_with(prefix),
        None => entry == resource_type,
    })
}
