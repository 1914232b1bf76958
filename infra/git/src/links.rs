//! Whether symbolic links stay inside, decided before any of them is on disk.

use std::collections::BTreeMap;

/// Links by path with their targets, all as slash-separated text.
pub(crate) type Links = BTreeMap<String, String>;

/// More hops than any real chain of links has.
const HOPS: usize = 40;

/// True when following the link, through other links too, never climbs above the root.
pub(crate) fn stays_inside(links: &Links, path: &str) -> bool {
    let mut hops = 0;
    let mut done: Vec<String> = Vec::new();
    // The parts still to go, the next one last.
    let mut ahead: Vec<String> = path.split('/').rev().map(String::from).collect();
    while let Some(part) = ahead.pop() {
        match part.as_str() {
            "" | "." => {}
            ".." => {
                if done.pop().is_none() {
                    return false;
                }
            }
            _ => {
                done.push(part);
                if let Some(target) = links.get(&done.join("/")) {
                    hops += 1;
                    if hops > HOPS || target.starts_with('/') || target.is_empty() {
                        return false;
                    }
                    done.pop();
                    ahead.extend(target.split('/').rev().map(String::from));
                }
            }
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    fn links(pairs: &[(&str, &str)]) -> Links {
        pairs.iter().map(|(path, target)| ((*path).into(), (*target).into())).collect()
    }

    #[test]
    fn a_link_may_go_up_as_far_as_the_root() {
        let links = links(&[("a/b/up", "../../file"), ("a/same", "./b/none"), ("top", "a")]);
        for path in links.keys() {
            assert!(stays_inside(&links, path), "{path}");
        }
    }

    #[test]
    fn a_link_may_not_leave_neither_directly_nor_through_another_nor_in_a_circle() {
        let links = links(&[
            ("out", "../file"),
            ("absolute", "/etc/passwd"),
            ("deep/er/flat", "../../a"),
            ("through", "deep/er/flat/../../x"),
            ("circle", "circle"),
            ("empty", ""),
        ]);
        for path in ["out", "absolute", "through", "circle", "empty"] {
            assert!(!stays_inside(&links, path), "{path}");
        }
        assert!(stays_inside(&links, "deep/er/flat"));
    }
}
