//! What may happen in an environment now: the queue of its runs, the one that applies, the heads of its states,
//! the head of its receipt chain. Whoever changes an environment goes through its slot, so a plan never races an
//! apply (Rules 11, 14, 17).

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use events::{EnvironmentId, Event, ProvisioningRunId, SpecificationId, TenantId};
use serde::{Deserialize, Serialize};

use crate::aggregate::{Aggregate, Change, Facets, Kind, Refusal, Scoped};
use crate::digest::Digest;
use crate::provisioning_run::Token;
use crate::receipt::{ChainLink, ReceiptKind};

/// More waiting runs than this mean that something is wrong with who sends them.
pub const QUEUE_LIMIT: usize = 200;

/// The state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnvironmentSlot {
    /// Whose it is.
    pub tenant: TenantId,
    /// Its environment.
    pub environment: EnvironmentId,
    /// Raised by each recovery from a backup; prefixes every token (Rule 27).
    pub epoch: u32,
    /// How many applies were started; only grows.
    pub apply_sequence: u64,
    /// Runs in their order; only the first is planned or applied.
    pub queue: Vec<QueuedRun>,
    /// The run that applies.
    pub active: Option<ActiveRun>,
    /// Per specification: its newest version and the state that its last apply left.
    pub specifications: BTreeMap<SpecificationId, SpecificationHead>,
    /// The newest link of the receipt chain.
    pub chain: Option<ChainHead>,
    /// Why nothing may be planned or applied until a person has looked.
    pub tainted: Option<Taint>,
}

/// A run in the queue.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueuedRun {
    /// The run.
    pub run: ProvisioningRunId,
    /// Its plan was approved: it is applied, not planned, when its turn comes.
    pub approved: bool,
}

/// The run that applies.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveRun {
    /// The run.
    pub run: ProvisioningRunId,
    /// Its token.
    pub token: Token,
    /// Since when.
    pub since: DateTime<Utc>,
}

/// Where a specification stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SpecificationHead {
    /// Its newest declared version.
    pub version: u32,
    /// The state after its last apply; None before the first.
    pub state: Option<StateHead>,
    /// The newest promotion of it, by the time of its approval: an older one that arrives later is superseded.
    pub newest_promotion: Option<PromotionHead>,
}

/// The newest promotion of a specification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromotionHead {
    /// Its run.
    pub run: ProvisioningRunId,
    /// When it was approved.
    pub decided_at: DateTime<Utc>,
}

/// A state that an apply left.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateHead {
    /// Digest of the state, among the artifacts.
    pub digest: Digest,
    /// The run that left it.
    pub run: ProvisioningRunId,
    /// The version that it applied.
    pub specification_version: u32,
    /// It holds operations that never ended: the next run stops (Rule 22).
    pub pending_operations: bool,
}

/// The newest link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChainHead {
    /// Its number.
    pub sequence: u64,
    /// Its digest.
    pub digest: Digest,
}

/// Why an environment is closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Taint {
    /// The run that caused it.
    pub run: ProvisioningRunId,
    /// What happened.
    pub reason: String,
    /// When it was seen.
    pub at: DateTime<Utc>,
}

/// What can be asked of a slot.
#[derive(Debug, Clone)]
pub enum SlotCommand {
    /// A version was declared.
    Declare {
        /// The specification.
        specification: SpecificationId,
        /// Its version.
        version: u32,
        /// The promotion that declared it.
        promotion: Option<PromotionHead>,
    },
    /// A new run queues up. Twice is once.
    Enqueue {
        /// The run.
        run: ProvisioningRunId,
    },
    /// An approved run gets the place right behind the head.
    Return {
        /// The run.
        run: ProvisioningRunId,
    },
    /// A run gives up its place: it waits for approval, or has ended without an apply.
    Leave {
        /// The run.
        run: ProvisioningRunId,
    },
    /// The head takes the environment for its apply.
    Take {
        /// The run.
        run: ProvisioningRunId,
    },
    /// A receipt joins the chain.
    Link {
        /// The run.
        run: ProvisioningRunId,
        /// What it is of.
        kind: ReceiptKind,
        /// Its digest.
        receipt: Digest,
    },
    /// The apply ended: the environment is free, and the state head moves where the state did.
    Release {
        /// The run.
        run: ProvisioningRunId,
        /// Its token.
        token: Token,
        /// The specification, with the state that the apply left.
        state: Option<(SpecificationId, StateHead)>,
    },
    /// Something changed behind our back.
    Taint {
        /// The run that caused it.
        run: ProvisioningRunId,
        /// What happened.
        reason: String,
    },
    /// A person has looked and says it is fine.
    Clear,
    /// A person has repaired the state of a specification: its unfinished operations are settled.
    Settle {
        /// The specification.
        specification: SpecificationId,
        /// The repaired state.
        state: StateHead,
    },
    /// The store was recovered from a backup: older tokens are void.
    RaiseEpoch,
    /// The store was recovered from a backup: a later apply left this state, as its outcome says.
    RollForward {
        /// The specification.
        specification: SpecificationId,
        /// The state.
        state: StateHead,
    },
}

/// Why a slot says no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SlotRefusal {
    /// Another run applies.
    #[error("environment {environment} is taken by run {by} (token {token}); it goes on when that run ends")]
    Taken {
        /// The environment.
        environment: EnvironmentId,
        /// The run that holds it.
        by: ProvisioningRunId,
        /// Its token.
        token: String,
    },
    /// It isn't this run's turn.
    #[error("run {run} is not at the head of the queue of environment {environment}; it waits for its turn")]
    NotHead {
        /// The environment.
        environment: EnvironmentId,
        /// The run.
        run: ProvisioningRunId,
    },
    /// A person has to look first.
    #[error(
        "environment {environment} is closed since run {run}: {reason}; look at its resources, then `runtime-cloud recover clear`"
    )]
    Tainted {
        /// The environment.
        environment: EnvironmentId,
        /// The run that caused it.
        run: ProvisioningRunId,
        /// What happened.
        reason: String,
    },
    /// The token isn't the holder's.
    #[error("run {run} doesn't hold environment {environment} under token {token}; it must stop")]
    NotHolder {
        /// The environment.
        environment: EnvironmentId,
        /// The run.
        run: ProvisioningRunId,
        /// Its token.
        token: String,
    },
    /// Too many wait.
    #[error("{QUEUE_LIMIT} runs wait for environment {environment} already; cancel some, or wait")]
    QueueFull {
        /// The environment.
        environment: EnvironmentId,
    },
}

impl Refusal for SlotRefusal {
    fn code(&self) -> &'static str {
        match self {
            SlotRefusal::Taken { .. } => "slot-taken",
            SlotRefusal::NotHead { .. } => "slot-not-head",
            SlotRefusal::Tainted { .. } => "slot-tainted",
            SlotRefusal::NotHolder { .. } => "slot-not-holder",
            SlotRefusal::QueueFull { .. } => "slot-queue-full",
        }
    }
}

impl EnvironmentSlot {
    /// The slot of a new environment.
    pub fn open(tenant: TenantId, environment: EnvironmentId) -> Change<EnvironmentSlot> {
        Change::created(
            EnvironmentSlot {
                tenant,
                environment,
                epoch: 1,
                apply_sequence: 0,
                queue: vec![],
                active: None,
                specifications: BTreeMap::new(),
                chain: None,
                tainted: None,
            },
            vec![],
        )
    }

    /// The run whose turn it is.
    pub fn head(&self) -> Option<&QueuedRun> {
        self.queue.first()
    }

    /// Whether it is this run's turn.
    pub fn is_head(&self, run: ProvisioningRunId) -> bool {
        self.head().is_some_and(|h| h.run == run)
    }

    /// The token that the next apply gets.
    pub const fn next_token(&self) -> Token {
        Token { epoch: self.epoch, sequence: self.apply_sequence + 1 }
    }

    /// The link that a receipt would get.
    pub fn next_link(&self, run: ProvisioningRunId, kind: ReceiptKind, receipt: Digest) -> ChainLink {
        ChainLink {
            epoch: self.epoch,
            sequence: self.chain.as_ref().map_or(1, |c| c.sequence + 1),
            previous: self.chain.as_ref().map(|c| c.digest.clone()),
            run,
            kind,
            receipt,
        }
    }

    /// The state that a specification's last apply left.
    pub fn state_of(&self, specification: SpecificationId) -> Option<&StateHead> {
        self.specifications.get(&specification).and_then(|s| s.state.as_ref())
    }

    fn head_of(&mut self, specification: SpecificationId, version: u32) -> &mut SpecificationHead {
        let new = SpecificationHead { version, state: None, newest_promotion: None };
        self.specifications.entry(specification).or_insert(new)
    }

    fn tainted(&self) -> Result<(), SlotRefusal> {
        match &self.tainted {
            None => Ok(()),
            Some(taint) => Err(SlotRefusal::Tainted {
                environment: self.environment.clone(),
                run: taint.run,
                reason: taint.reason.clone(),
            }),
        }
    }
}

impl Aggregate for EnvironmentSlot {
    const KIND: Kind = Kind::EnvironmentSlot;
    type Id = Scoped<EnvironmentId>;
    type Command = SlotCommand;
    type Refusal = SlotRefusal;

    fn id(&self) -> Scoped<EnvironmentId> {
        Scoped::new(self.tenant.clone(), self.environment.clone())
    }

    fn facets(&self) -> Facets {
        let state = match (&self.tainted, &self.active) {
            (Some(_), _) => "Tainted",
            (None, Some(_)) => "Taken",
            (None, None) => "Free",
        };
        Facets {
            tenant: self.tenant.clone(),
            environment: Some(self.environment.clone()),
            pool: None,
            state,
            begun: None,
            due: None,
        }
    }

    fn decide(&self, command: SlotCommand, now: DateTime<Utc>) -> Result<(Self, Vec<Event>), SlotRefusal> {
        let mut next = self.clone();
        match command {
            SlotCommand::Declare { specification, version, promotion } => {
                let head = next.head_of(specification, version);
                head.version = head.version.max(version);
                head.newest_promotion = promotion.or(head.newest_promotion.take());
            }
            SlotCommand::Enqueue { run } => {
                if self.queue.iter().any(|q| q.run == run) {
                    return Ok((next, vec![]));
                }
                if self.queue.len() >= QUEUE_LIMIT {
                    return Err(SlotRefusal::QueueFull { environment: self.environment.clone() });
                }
                next.queue.push(QueuedRun { run, approved: false });
            }
            SlotCommand::Return { run } => {
                if !self.queue.iter().any(|q| q.run == run) {
                    let place = usize::from(!self.queue.is_empty());
                    next.queue.insert(place, QueuedRun { run, approved: true });
                }
            }
            SlotCommand::Leave { run } => {
                if let Some(active) = self.active.as_ref().filter(|a| a.run == run) {
                    return Err(SlotRefusal::Taken {
                        environment: self.environment.clone(),
                        by: run,
                        token: active.token.to_string(),
                    });
                }
                next.queue.retain(|q| q.run != run);
            }
            SlotCommand::Take { run } => {
                self.tainted()?;
                if let Some(active) = &self.active {
                    return Err(SlotRefusal::Taken {
                        environment: self.environment.clone(),
                        by: active.run,
                        token: active.token.to_string(),
                    });
                }
                if !self.is_head(run) {
                    return Err(SlotRefusal::NotHead { environment: self.environment.clone(), run });
                }
                next.active = Some(ActiveRun { run, token: self.next_token(), since: now });
                next.apply_sequence += 1;
            }
            SlotCommand::Link { run, kind, receipt } => {
                let link = self.next_link(run, kind, receipt);
                next.chain = Some(ChainHead { sequence: link.sequence, digest: link.digest() });
            }
            SlotCommand::Release { run, token, state } => {
                if !self.active.as_ref().is_some_and(|a| a.run == run && a.token == token) {
                    return Err(SlotRefusal::NotHolder {
                        environment: self.environment.clone(),
                        run,
                        token: token.to_string(),
                    });
                }
                next.active = None;
                next.queue.retain(|q| q.run != run);
                if let Some((specification, state)) = state {
                    let version = state.specification_version;
                    let head = next.head_of(specification, version);
                    head.state = Some(state);
                }
            }
            SlotCommand::Taint { run, reason } => {
                if next.tainted.is_none() {
                    let reason = crate::bounds::text(&reason);
                    next.tainted = Some(Taint { run, reason, at: now });
                }
            }
            SlotCommand::Clear => next.tainted = None,
            SlotCommand::Settle { specification, state } => {
                if let Some(active) = &self.active {
                    return Err(SlotRefusal::Taken {
                        environment: self.environment.clone(),
                        by: active.run,
                        token: active.token.to_string(),
                    });
                }
                let version = state.specification_version;
                let head = next.head_of(specification, version);
                head.state = Some(state);
            }
            SlotCommand::RaiseEpoch => next.epoch += 1,
            SlotCommand::RollForward { specification, state } => {
                let version = state.specification_version;
                let head = next.head_of(specification, version);
                // A number that was used is not used again, though its row is gone (Rule 5).
                head.version = head.version.max(version);
                head.state = Some(state);
            }
        }
        Ok((next, vec![]))
    }
}
