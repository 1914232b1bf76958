//! A file that nobody can hold in their head is too long.

use super::{Findings, Source};
use crate::problem::Problem;

const MOST: usize = 600;
const MUCH: usize = 500;
const TO_DO: &str = "split it by what its parts are about";

pub(super) fn check(source: &Source, findings: &mut Findings) {
    let lines = source.text.lines().count();
    if lines > MOST {
        let what = format!("{lines} lines, more than {MOST}");
        findings.problems.push(Problem::new(&source.path, MOST + 1, what, TO_DO));
    } else if lines > MUCH {
        let what = format!("{lines} lines, soon more than {MOST}");
        findings.warnings.push(Problem::new(&source.path, MUCH + 1, what, TO_DO));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: usize) -> (usize, usize) {
        let mut findings = Findings::default();
        check(&Source { path: "a.rs".into(), text: "\n".repeat(lines) }, &mut findings);
        (findings.problems.len(), findings.warnings.len())
    }

    #[test]
    fn the_limits_are_where_they_are_said_to_be() {
        assert_eq!([500, 501, 600, 601].map(found), [(0, 0), (0, 1), (0, 1), (1, 0)]);
    }
}
