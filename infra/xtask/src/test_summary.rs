//! What the test runners say at their end, added up.

use std::fmt;

/// One runner of cargo: a test binary, or the documentation tests of a crate.
#[derive(Debug, Default, PartialEq, Eq)]
struct Runner {
    name: String,
    /// Its own last line; none if it died before.
    result: Option<String>,
}

/// All runners so far.
#[derive(Debug, Default)]
pub struct TestSummary {
    runners: Vec<Runner>,
    failures: Vec<String>,
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
    pub failed: u64,
    /// Tests that were not run.
    pub ignored: u64,
}

const RESULT: &str = "test result: ";

impl TestSummary {
    /// Takes in a line of what cargo and its runners print.
    pub fn line(&mut self, line: &str) {
        let line = line.trim_end();
        if let Some(counts) = line.strip_prefix(RESULT) {
            self.passed += count(counts, "passed");
            self.failed += count(counts, "failed");
            self.ignored += count(counts, "ignored");
            match self.runners.last_mut() {
                Some(runner) if runner.result.is_none() => runner.result = Some(line.to_owned()),
                _ => self.runners.push(Runner { name: String::new(), result: Some(line.to_owned()) }),
            }
        } else if let Some(name) = started(line) {
            self.runners.push(Runner { name, result: None });
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            let runner = self.runners.last().map(|runner| runner.name.as_str()).unwrap_or_default();
            self.failures.push(format!("{name} ({runner})"));
        }
    }

    /// Runners that ended without a result: they crashed, or exited on their own.
    pub fn broken(&self) -> usize {
        self.runners.iter().filter(|runner| runner.result.is_none()).count()
    }
}

/// The name of a runner that cargo starts.
fn started(line: &str) -> Option<String> {
    let line = line.trim_start();
    if let Some(name) = line.strip_prefix("Doc-tests ") {
        return Some(format!("documentation of {name}"));
    }
    // `Running unittests src/lib.rs (target/debug/deps/runtime_cloud_domain-0123456789abcdef)`
    let (what, binary) = line.strip_prefix("Running ")?.strip_suffix(')')?.rsplit_once(" (")?;
    let file = binary.rsplit('/').next()?;
    let name = file.rsplit_once('-').map_or(file, |(name, _)| name);
    Some(format!("{name}, {what}"))
}

/// The number before a word, as in `ok. 3 passed; 0 failed`.
fn count(counts: &str, word: &str) -> u64 {
    let part = counts.split([';', '.']).map(str::trim).find_map(|part| part.strip_suffix(word));
    part.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

impl fmt::Display for TestSummary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for failure in &self.failures {
            writeln!(formatter, "FAILED {failure}")?;
        }
        for runner in &self.runners {
            match &runner.result {
                // Most crates have no documentation tests; their lines would hide the others.
                Some(result)
                    if count(result, "passed") + count(result, "failed") + count(result, "ignored") == 0 => {}
                Some(result) => writeln!(formatter, "{}\n{result}", runner.name)?,
                None => writeln!(formatter, "{} ended without a result", runner.name)?,
            }
        }
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)?;
        if self.ignored > 0 {
            write!(formatter, ", {} skipped", self.ignored)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> TestSummary {
        let mut summary = TestSummary::default();
        text.lines().for_each(|line| summary.line(line));
        summary
    }

    #[test]
    fn results_are_added_up_and_empty_runners_left_out() {
        let summary = read(
            "     Running unittests src/lib.rs (target/debug/deps/one_crate-0123)\n\
             \n\
             running 3 tests\n\
             test a ... ok\n\
             test b::c ... FAILED\n\
             \n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.10s\n\
             \x20    Running tests/it.rs (target/debug/deps/it-45)\n\
             test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n\
             \x20  Doc-tests one_crate\n\
             test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!((summary.passed, summary.failed, summary.ignored, summary.broken()), (41, 1, 1, 0));
        assert_eq!(
            summary.to_string(),
            "FAILED b::c (one_crate, unittests src/lib.rs)\n\
             one_crate, unittests src/lib.rs\n\
             test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 4 filtered out; finished in 0.10s\n\
             it, tests/it.rs\n\
             test result: ok. 40 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n\
             41 passed, 1 failed, 1 skipped"
        );
    }

    #[test]
    fn a_runner_that_dies_is_told() {
        let summary = read(
            "     Running tests/a.rs (target/debug/deps/a-1)\n\
             running 1 test\n\
             \x20    Running tests/b.rs (target/debug/deps/b-2)\n\
             test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n",
        );
        assert_eq!(summary.broken(), 1);
        assert!(summary.to_string().starts_with("a, tests/a.rs ended without a result\n"), "{summary}");
        assert!(summary.to_string().ends_with("\n1 passed, 0 failed"), "{summary}");
    }

    #[test]
    fn nothing_is_no_test() {
        assert_eq!(read("").to_string(), "0 passed, 0 failed");
    }
}
