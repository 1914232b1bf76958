//! The one write seam (Rule 1): what belongs together is written together or not at all.

use chrono::{DateTime, Utc};
use domain::aggregate::Address;
use domain::{Aggregate, Change, Facets, Key, Version, Versioned};
use events::{Envelope, EventId, TraceParent};
use uuid::Uuid;

use crate::cx::Cx;
use crate::error::PortError;

/// Names one commit; the same bytes sent again carry the same name (Rule 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CommitId(pub Uuid);

/// A row to write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// Its key.
    pub key: Key,
    /// The version that it gets.
    pub version: Version,
    /// Its state, as JSON.
    pub body: Vec<u8>,
    /// What it may be found by.
    pub facets: Facets,
}

/// Something that leaves when the row that carries it is written.
#[derive(Debug, Clone, PartialEq)]
pub struct Letter {
    /// UUIDv5 of carrier key, carrier version and index (Rule 6).
    pub id: Uuid,
    /// What leaves.
    pub body: LetterBody,
}

/// What leaves.
#[derive(Debug, Clone, PartialEq)]
pub enum LetterBody {
    /// An event, to the bus.
    Event(Box<Envelope>),
    /// A message, to a queue.
    Message {
        /// The queue: the name of the worker that reads it.
        queue: String,
        /// One message of a group at a time.
        group: String,
        /// JSON.
        body: Vec<u8>,
        /// The chain of work that it belongs to.
        correlation: String,
        /// The span that sends it.
        trace: Option<TraceParent>,
    },
}

/// Where messages for a worker go: the worker's queue, the message's group and body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The worker's name.
    pub queue: &'static str,
    /// One message of a group at a time.
    pub group: String,
    /// JSON.
    pub body: Vec<u8>,
}

/// One operation of a commit: one item of a transaction.
#[derive(Debug, Clone, PartialEq)]
pub enum Op {
    /// Writes a row. `replaces` None: it must not exist.
    Put {
        /// The row.
        row: Row,
        /// The version that must be there.
        replaces: Option<Version>,
        /// What leaves with it.
        letters: Vec<Letter>,
    },
    /// A fence: nothing moved since the row was read.
    Unchanged {
        /// The row.
        key: Key,
        /// Its version.
        version: Version,
    },
    /// Takes (positive) or gives back (negative). Refused beyond what is free.
    Count {
        /// The counter.
        counter: String,
        /// How much of which limit.
        by: Vec<(String, i64)>,
    },
    /// Moves a limit and what is free of it together. `from` None: the limit is new.
    SetLimit {
        /// The counter.
        counter: String,
        /// The limit.
        name: String,
        /// What it must be now.
        from: Option<i64>,
        /// What it becomes.
        to: i64,
    },
    /// Takes a name until a time; a claim past its time counts as absent.
    Claim {
        /// The name.
        name: String,
        /// Until when.
        until: DateTime<Utc>,
        /// When it is taken.
        now: DateTime<Utc>,
    },
}

impl Op {
    /// What the operation is on: no two of a commit are on the same.
    pub fn target(&self) -> String {
        match self {
            Op::Put { row, .. } => row.key.to_string(),
            Op::Unchanged { key, .. } => key.to_string(),
            Op::Count { counter, .. } | Op::SetLimit { counter, .. } => format!("Counters/{counter}"),
            Op::Claim { name, .. } => format!("Claims/{name}"),
        }
    }

    /// Bytes that it puts into a store, about.
    pub fn size(&self) -> usize {
        match self {
            Op::Put { row, letters, .. } => {
                let letters: usize = letters.iter().map(|l| l.size() + 64).sum();
                row.body.len() + row.key.text.len() + 256 + letters
            }
            Op::Unchanged { .. } | Op::Count { .. } | Op::SetLimit { .. } | Op::Claim { .. } => 256,
        }
    }
}

impl Letter {
    fn size(&self) -> usize {
        match &self.body {
            LetterBody::Event(envelope) => serde_json::to_vec(envelope).map_or(0, |v| v.len()),
            LetterBody::Message { body, .. } => body.len(),
        }
    }
}

/// What a commit came to. A conflict is a result.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "a conflict is a result that somebody has to look at"]
pub enum Committed {
    /// All of it is written.
    Yes,
    /// Nothing of it is written; these conditions failed.
    Conflict(Vec<Conflict>),
}

/// A condition that failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Conflict {
    /// The row is there already.
    #[error("{0} exists already")]
    Exists(Key),
    /// The row was written since it was read.
    #[error("{0} changed since it was read")]
    Changed(Key),
    /// The name is taken.
    #[error("{0} is claimed already")]
    Claimed(String),
    /// A limit binds.
    #[error("{counter}: {name} {used}/{limit}, {by} more asked")]
    Limit {
        /// The counter.
        counter: String,
        /// The limit.
        name: String,
        /// How much is used.
        used: i64,
        /// Of how much.
        limit: i64,
        /// How much was asked.
        by: i64,
    },
    /// The limit isn't what it was taken for.
    #[error("{counter}: limit {name} changed since it was read")]
    LimitMoved {
        /// The counter.
        counter: String,
        /// The limit.
        name: String,
    },
}

/// A commit that ended in a fault.
#[derive(Debug, thiserror::Error)]
pub enum CommitError {
    /// Nothing of it is written.
    #[error("nothing was written")]
    NotApplied(#[source] PortError),
    /// Nobody knows; send the same bytes again.
    #[error("whether it was written is unknown")]
    Unknown(#[source] PortError),
}

/// At most so many operations: DynamoDB allows 100.
pub const MAX_OPS: usize = 90;
/// At most so many bytes: DynamoDB allows 4 MB.
pub const MAX_BYTES: usize = 3_500_000;
/// At most so many bytes an item: DynamoDB allows 400 KB.
pub const MAX_ITEM: usize = 350_000;

/// What is written together. The first change is the anchor: letters ride on it, and its row settles a lost answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// Its name.
    pub id: CommitId,
    /// Its operations.
    pub ops: Vec<Op>,
    time: DateTime<Utc>,
    correlation: String,
    causation: String,
    span: TraceParent,
    broken: Option<String>,
}

impl Commit {
    /// A commit with its anchor.
    pub fn of<A: Aggregate>(change: Change<A>, cx: &Cx) -> Commit {
        let key = change.after().id().key(A::KIND);
        let version = Version::after(change.before());
        // The message, the attempt and the row that is written: two deliveries make two commits, a resend the same.
        let name = format!("commit/{}/{}/{key}/{}", cx.message, cx.attempt, version.0);
        let mut commit = Commit {
            id: CommitId(Uuid::new_v5(&domain::deployment_specification::NAMESPACE, name.as_bytes())),
            ops: vec![],
            time: cx.now,
            correlation: cx.correlation.clone(),
            causation: cx.message.to_string(),
            span: cx.span(),
            broken: None,
        };
        commit.put(&change);
        commit
    }

    /// A further change.
    pub fn and<A: Aggregate>(mut self, change: Change<A>) -> Commit {
        self.put(&change);
        self
    }

    /// A further change, if there is one.
    pub fn and_maybe<A: Aggregate>(self, change: Option<Change<A>>) -> Commit {
        match change {
            Some(change) => self.and(change),
            None => self,
        }
    }

    /// A message that leaves with the anchor.
    pub fn queue(mut self, destination: Destination) -> Commit {
        let body = LetterBody::Message {
            queue: destination.queue.to_owned(),
            group: destination.group,
            body: destination.body,
            correlation: self.correlation.clone(),
            trace: Some(self.span),
        };
        if let Some(Op::Put { row, letters, .. }) = self.ops.first_mut() {
            let id = letter_id(&row.key, row.version, letters.len());
            letters.push(Letter { id, body });
        }
        self
    }

    /// A message, if there is one.
    pub fn queue_maybe(self, destination: Option<Destination>) -> Commit {
        match destination {
            Some(destination) => self.queue(destination),
            None => self,
        }
    }

    /// A fence.
    pub fn unchanged<A: Aggregate>(mut self, read: &Versioned<A>) -> Commit {
        self.ops.push(Op::Unchanged { key: read.key(), version: read.version() });
        self
    }

    /// Takes from a counter, or gives back.
    pub fn count(mut self, counter: impl Into<String>, by: &[(&str, i64)]) -> Commit {
        let by = by.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect();
        self.ops.push(Op::Count { counter: counter.into(), by });
        self
    }

    /// Moves a limit.
    pub fn set_limit(
        mut self,
        counter: impl Into<String>,
        name: impl Into<String>,
        from: Option<i64>,
        to: i64,
    ) -> Commit {
        self.ops.push(Op::SetLimit { counter: counter.into(), name: name.into(), from, to });
        self
    }

    /// Takes a name.
    pub fn claim(mut self, name: impl Into<String>, until: DateTime<Utc>) -> Commit {
        let now = self.time;
        self.ops.push(Op::Claim { name: name.into(), until, now });
        self
    }

    fn put<A: Aggregate>(&mut self, change: &Change<A>) {
        let state = change.after();
        let key = state.id().key(A::KIND);
        let version = Version::after(change.before());
        let body = match serde_json::to_vec(state) {
            Ok(body) => body,
            Err(e) => {
                self.broken = Some(format!("{key} can't be written as JSON: {e}"));
                return;
            }
        };
        let mut letters = vec![];
        for event in change.events() {
            let id = letter_id(&key, version, letters.len());
            let envelope = Envelope::of(
                event,
                EventId(id),
                self.time,
                Some(self.correlation.clone()),
                Some(self.causation.clone()),
                Some(self.span),
            );
            match envelope {
                Ok(envelope) => letters.push(Letter { id, body: LetterBody::Event(Box::new(envelope)) }),
                Err(e) => self.broken = Some(format!("{} can't be written as JSON: {e}", event.name())),
            }
        }
        let row = Row { key, version, body, facets: state.facets() };
        self.ops.push(Op::Put { row, replaces: change.before(), letters });
    }

    /// Names the commit by what it writes too: the same bytes again are the same commit, and a second delivery of
    /// the same message that would write something else is another one.
    pub(crate) fn sealed(mut self) -> Commit {
        let name = format!("{}/{:?}", self.id.0, self.ops);
        self.id = CommitId(Uuid::new_v5(&domain::deployment_specification::NAMESPACE, name.as_bytes()));
        self
    }

    /// Refuses what one of the databases could not write, so that all of them are equally strict.
    pub fn check(&self) -> Result<(), PortError> {
        let refuse =
            |what: String| Err(PortError::broken(what, "split the commit; this is a defect, report it"));
        if let Some(broken) = &self.broken {
            return refuse(broken.clone());
        }
        if self.ops.len() > MAX_OPS {
            return refuse(format!(
                "a commit of {} operations; at most {MAX_OPS} are allowed",
                self.ops.len()
            ));
        }
        let mut targets = std::collections::BTreeSet::new();
        let mut bytes = 0;
        for op in &self.ops {
            let target = op.target();
            let size = op.size();
            bytes += size;
            if size > MAX_ITEM {
                return refuse(format!("{target} has {size} bytes; at most {MAX_ITEM} are allowed"));
            }
            if !targets.insert(target.clone()) {
                return refuse(format!("{target} stands twice in a commit"));
            }
            if let Op::Count { by, .. } = op {
                // Each would be checked alone against what is free, and all be taken.
                let names: std::collections::BTreeSet<_> = by.iter().map(|(name, _)| name).collect();
                if names.len() != by.len() {
                    return refuse(format!("{target} counts one limit twice"));
                }
            }
        }
        if bytes > MAX_BYTES {
            return refuse(format!("a commit of {bytes} bytes; at most {MAX_BYTES} are allowed"));
        }
        Ok(())
    }
}

fn letter_id(carrier: &Key, version: Version, index: usize) -> Uuid {
    let name = format!("letter/{carrier}/{}/{index}", version.0);
    Uuid::new_v5(&domain::deployment_specification::NAMESPACE, name.as_bytes())
}
