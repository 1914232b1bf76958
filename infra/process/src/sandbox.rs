//! A sandbox that does one piece of work after another, each by itself: nothing that one has started is there when the
//! next one begins.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::time::{Duration, Instant};

use rustix::process::{DumpableBehavior, Signal, pidfd_send_signal};

use crate::identity::Stat;

/// This process, as the one that everything in its sandbox descends from.
#[derive(Debug)]
pub struct Sandbox(());

/// How long killed processes may take to be gone.
const LIMIT: Duration = Duration::from_secs(10);
/// Between two looks.
const LOOK: Duration = Duration::from_millis(5);

impl Sandbox {
    /// Makes this process the parent of whatever loses its own, so that nothing it has started can leave its
    /// descendants; and unreadable for them, for they run as the same user.
    pub fn take() -> io::Result<Sandbox> {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
        Ok(Sandbox(()))
    }

    /// Kills every descendant, until there is none; how many there were. Blocks, for ten seconds at most.
    pub fn clear(&self) -> io::Result<usize> {
        let began = Instant::now();
        let mut killed = std::collections::BTreeSet::new();
        loop {
            let found = descendants();
            // An empty round alone is proof: whoever has just forked and ended leaves at least its own remains.
            if found.is_empty() {
                return Ok(killed.len());
            }
            for stat in &found {
                if stat.ended {
                    stat.id.reap();
                    continue;
                }
                killed.insert((stat.id.pid, stat.id.start_ticks));
                if let Some(handle) = stat.id.open() {
                    // Whoever has ended meanwhile needs no signal.
                    let _ = pidfd_send_signal(&handle, Signal::KILL);
                }
            }
            if began.elapsed() > LIMIT {
                let what = format!("{} processes of an earlier job can't be ended", found.len());
                return Err(io::Error::new(io::ErrorKind::TimedOut, what));
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Every process that descends from this one, the ended ones that nobody has taken away too.
fn descendants() -> Vec<Stat> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(stat) = pid.and_then(Stat::read) {
            all.insert(stat.id.pid, stat);
        }
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let descends = |stat: &Stat| {
        let mut parent = stat.parent;
        // A chain is never longer than there are processes.
        for _ in 0..all.len() {
            if parent == own {
                return true;
            }
            let Some(above) = all.get(&parent) else { return false };
            parent = above.parent;
        }
        false
    };
    all.values().copied().filter(descends).collect()
}
