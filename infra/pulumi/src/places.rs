//! Which place a job runs on. It is chosen before an apply is claimed, stands in the job's order, and never changes.

use std::sync::Arc;

use chrono::TimeDelta;
use ports::runner::Phase;
use ports::{PortError, RunnerPlace};
use serde::{Deserialize, Serialize};

/// A kind of place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// A function: at once there, for some minutes.
    #[default]
    Function,
    /// A task in a container: it takes a minute to start, and has an hour.
    Task,
}

/// How a place is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice {
    /// Every job on a function.
    Function,
    /// Plans on a function, every apply on a task.
    Task,
    /// Plans on a function, and applies of which each step is known to be short: those of resource types that begin
    /// like one of these.
    Auto(Vec<String>),
}

/// Resource types whose every step takes seconds, by how they begin: nothing starts up there, and nobody waits for
/// something to become healthy.
pub const SHORT_TYPES: &[&str] = &[
    "pulumi:",
    "local:",
    "random:",
    "tls:",
    "time:index/offset:",
    "time:index/rotating:",
    "time:index/static:",
    "aws:iam/",
    "aws:ssm/parameter",
    "aws:secretsmanager/",
    "aws:cloudwatch/",
    "kubernetes:core/v1:ConfigMap",
    "kubernetes:core/v1:Secret",
    "kubernetes:core/v1:ServiceAccount",
    "kubernetes:rbac.authorization.k8s.io/",
];

/// The places of a controller.
pub struct Places {
    /// The function.
    pub function: Arc<dyn RunnerPlace>,
    /// Tasks; None where there are none.
    pub task: Option<Arc<dyn RunnerPlace>>,
    /// How one is chosen.
    pub choice: Choice,
}

impl Places {
    /// Where a half of a run goes that changes resources of these types.
    pub fn choose(&self, phase: Phase, changing: &[String]) -> Place {
        let short =
            |short: &[String]| changing.iter().all(|t| short.iter().any(|s| t.starts_with(s.as_str())));
        match (&self.choice, phase) {
            _ if self.task.is_none() => Place::Function,
            (_, Phase::Plan) | (Choice::Function, Phase::Apply) => Place::Function,
            (Choice::Task, Phase::Apply) => Place::Task,
            (Choice::Auto(types), Phase::Apply) if short(types) => Place::Function,
            (Choice::Auto(_), Phase::Apply) => Place::Task,
        }
    }

    /// How long a job may take there.
    pub fn longest(&self, place: Place) -> Option<TimeDelta> {
        self.get(place).ok().map(RunnerPlace::longest)
    }

    /// The place of that kind.
    pub fn get(&self, place: Place) -> Result<&dyn RunnerPlace, PortError> {
        match (place, &self.task) {
            (Place::Function, _) => Ok(&*self.function),
            (Place::Task, Some(task)) => Ok(&**task),
            (Place::Task, None) => Err(PortError::broken(
                "a run is in a task, and this stack has none any more",
                "deploy it with its RunnerImage and TaskSubnets again until that run has ended",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use async_trait::async_trait;
    use chrono::{DateTime, Utc};
    use ports::runner_place::{JobClaim, Order};

    use super::*;

    struct Nowhere;

    #[async_trait]
    impl RunnerPlace for Nowhere {
        fn longest(&self) -> TimeDelta {
            TimeDelta::minutes(1)
        }
        async fn start(&self, _: &Order) -> Result<(), PortError> {
            Ok(())
        }
        async fn gone(&self, _: &JobClaim, _: DateTime<Utc>) -> Result<Option<String>, PortError> {
            Ok(None)
        }
    }

    fn places(choice: Choice, tasks: bool) -> Places {
        Places { function: Arc::new(Nowhere), task: tasks.then(|| Arc::new(Nowhere) as _), choice }
    }

    fn types(types: &[&str]) -> Vec<String> {
        types.iter().map(|t| (*t).to_owned()).collect()
    }

    #[test]
    fn an_apply_goes_to_a_function_only_if_each_step_is_short() {
        let auto = || Choice::Auto(types(SHORT_TYPES));
        let short = types(&["pulumi:pulumi:Stack", "local:index:File", "aws:iam/role:Role"]);
        let long = types(&["local:index:File", "aws:rds/instance:Instance"]);
        let of = |choice, tasks, changing: &[String]| places(choice, tasks).choose(Phase::Apply, changing);
        assert_eq!(of(auto(), true, &short), Place::Function);
        assert_eq!(of(auto(), true, &long), Place::Task);
        assert_eq!(of(auto(), false, &long), Place::Function);
        assert_eq!(of(Choice::Task, true, &short), Place::Task);
        assert_eq!(of(Choice::Function, true, &long), Place::Function);
        assert_eq!(places(Choice::Task, true).choose(Phase::Plan, &long), Place::Function);
    }

    #[test]
    fn a_task_that_is_gone_from_the_stack_is_named() {
        let refused = places(Choice::Function, false).get(Place::Task).err().map(|e| e.chain());
        assert!(refused.is_some_and(|r| r.contains("RunnerImage")));
    }
}
