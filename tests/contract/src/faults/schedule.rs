//! Which calls fail, and how.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use ports::PortError;

/// What goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It happens, and nobody is told.
    AnswerLost,
    /// It happens twice.
    Duplicate,
    /// It happens later.
    Delay,
    /// It doesn't happen: come again.
    Throttle,
    /// Whoever asked dies before it happens; nothing that it asks later happens either.
    CrashBefore,
    /// It happens, then whoever asked dies.
    CrashAfter,
    /// Somebody else writes the same row just before. Other ports have no rows: there it is no fault.
    Contended,
}

/// Which calls it hits.
#[derive(Debug, Clone, Copy)]
enum When {
    /// One call, 1 for the first.
    Nth(u32),
    /// The first calls.
    First(u32),
    /// Every so many-th call.
    Every(u32),
}

/// A fault and when it strikes. Ports that share one die together.
#[derive(Debug)]
pub struct Faults {
    fault: Fault,
    when: When,
    calls: AtomicU32,
    dead: AtomicBool,
}

impl Faults {
    const fn new(fault: Fault, when: When) -> Faults {
        Faults { fault, when, calls: AtomicU32::new(0), dead: AtomicBool::new(false) }
    }
    /// Hits one call: 1 for the first.
    pub const fn nth(call: u32, fault: Fault) -> Faults {
        Faults::new(fault, When::Nth(call))
    }
    /// Hits the first calls.
    pub const fn first(calls: u32, fault: Fault) -> Faults {
        Faults::new(fault, When::First(calls))
    }
    /// Hits every so many-th call.
    pub const fn every(calls: u32, fault: Fault) -> Faults {
        Faults::new(fault, When::Every(calls))
    }
    /// How many calls came.
    pub fn calls(&self) -> u32 {
        self.calls.load(Ordering::SeqCst)
    }
    /// Whether whoever asks has died.
    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// What hits the next writing call.
    pub(super) fn next(&self) -> Option<Fault> {
        if self.is_dead() {
            return Some(Fault::CrashBefore);
        }
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let hits = match self.when {
            When::Nth(n) => call == n,
            When::First(n) => call <= n,
            When::Every(n) => call.is_multiple_of(n),
        };
        let fault = hits.then_some(self.fault);
        if matches!(fault, Some(Fault::CrashBefore | Fault::CrashAfter)) {
            self.dead.store(true, Ordering::SeqCst);
        }
        fault
    }

    /// Reading calls fail only once whoever asks has died.
    pub(super) fn alive(&self) -> Result<(), PortError> {
        if self.is_dead() { Err(crashed()) } else { Ok(()) }
    }
}

pub(super) fn crashed() -> PortError {
    PortError::broken("the process crashed here", "this is a fault that a test made")
}

pub(super) fn throttled() -> PortError {
    PortError::unavailable("the port", "too many requests (a fault that a test made)")
}

pub(super) fn lost() -> PortError {
    PortError::unavailable("the port", "the answer was lost (a fault that a test made)")
}

pub(super) async fn delayed() {
    tokio::time::sleep(Duration::from_millis(3)).await;
}

/// A call of a port without a word for "unknown": a lost answer looks as if it were unavailable.
macro_rules! under {
    ($faults:expr, $call:expr) => {
        match $faults.next() {
            None | Some($crate::faults::Fault::Contended) => $call.await,
            Some($crate::faults::Fault::AnswerLost) => {
                // Its answer is what gets lost.
                drop($call.await);
                Err($crate::faults::schedule::lost())
            }
            Some($crate::faults::Fault::Duplicate) => {
                let answer = $call.await;
                drop($call.await);
                answer
            }
            Some($crate::faults::Fault::Delay) => {
                $crate::faults::schedule::delayed().await;
                $call.await
            }
            Some($crate::faults::Fault::Throttle) => Err($crate::faults::schedule::throttled()),
            Some($crate::faults::Fault::CrashBefore) => Err($crate::faults::schedule::crashed()),
            Some($crate::faults::Fault::CrashAfter) => {
                drop($call.await);
                Err($crate::faults::schedule::crashed())
            }
        }
    };
}
pub(super) use under;
