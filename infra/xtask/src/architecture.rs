//! The arrows between the crates of this workspace, complete: what isn't listed here is refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use cargo_metadata::{DependencyKind, Metadata, Package, PackageId};

use crate::problem::{Problem, Stop};

/// What every package's name begins with; the rest is its folder's name.
const PREFIX: &str = "runtime-cloud-";

/// What a crate may depend on.
enum May {
    /// On these of ours.
    Only(&'static [&'static str]),
    /// On the whole product: it wires it.
    Product,
    /// On anything of ours: it tests it.
    Anything,
}

const PORTS_AND_BELOW: &[&str] = &["ports", "domain", "events", "process"];

const ARROWS: &[(&str, May)] = &[
    ("events", May::Only(&[])),
    ("domain", May::Only(&["events"])),
    ("ports", May::Only(&["domain", "events"])),
    ("application", May::Only(&["ports", "domain", "events"])),
    ("http", May::Only(&["application", "ports", "domain", "events"])),
    ("process", May::Only(&[])),
    ("local", May::Only(&["process"])),
    ("aws", May::Only(PORTS_AND_BELOW)),
    ("embedded", May::Only(PORTS_AND_BELOW)),
    ("git", May::Only(PORTS_AND_BELOW)),
    ("kubernetes", May::Only(PORTS_AND_BELOW)),
    ("policies", May::Only(PORTS_AND_BELOW)),
    ("pulumi", May::Only(PORTS_AND_BELOW)),
    (
        "functions",
        May::Only(&[
            "application",
            "http",
            "ports",
            "domain",
            "events",
            "aws",
            "pulumi",
            "git",
            "policies",
            "kubernetes",
            "process",
        ]),
    ),
    ("host", May::Product),
    ("xtask", May::Only(&[])),
    ("contract", May::Anything),
    ("emulator", May::Only(&[])),
    ("hello", May::Only(&[])),
    ("e2e", May::Anything),
    ("simulation", May::Anything),
    ("benches", May::Anything),
];

/// Crates that no part of the product may depend on.
const NOT_PRODUCT: &[&str] =
    &["host", "functions", "xtask", "contract", "emulator", "hello", "e2e", "simulation", "benches"];

/// Crates that stay pure, and what would end that, however far below.
const PURE: &[&str] = &["domain", "events"];
const IMPURE: &[&str] = &["tokio", "async-trait", "rusqlite", "reqwest"];

/// A crate of this workspace.
#[derive(Debug, Clone)]
pub struct Member {
    /// The package's name.
    pub package: String,
    /// Its Cargo.toml, from the workspace's folder.
    pub manifest: PathBuf,
    /// The text of that.
    pub text: String,
    /// What it asks for.
    pub needs: Vec<Need>,
}

/// A dependency of a member on another.
#[derive(Debug, Clone)]
pub struct Need {
    /// The package's name.
    pub package: String,
    /// What the member calls it.
    pub key: String,
    /// Only for its tests.
    pub dev: bool,
    /// Only with a feature.
    pub optional: bool,
}

impl Member {
    fn name(&self) -> &str {
        short(&self.package)
    }

    fn problem(&self, key: &str, what: String, to_do: &str) -> Problem {
        let names = |line: &str| {
            line.strip_prefix(key).is_some_and(|rest| rest.starts_with(['.', ' ', '=']) && !key.is_empty())
        };
        let line = self.text.lines().position(names).map_or(1, |index| index + 1);
        Problem::new(&self.manifest, line, what, to_do)
    }
}

fn short(package: &str) -> &str {
    package.strip_prefix(PREFIX).unwrap_or(package)
}

/// Everything that is wrong with the dependencies of this workspace.
pub fn check(metadata: &Metadata) -> Result<Vec<Problem>, Stop> {
    let members = members(metadata)?;
    let mut problems = arrows(&members);
    problems.extend(cycles(&members));
    problems.extend(impurities(metadata, &members));
    Ok(problems)
}

/// The members, as cargo tells them.
fn members(metadata: &Metadata) -> Result<Vec<Member>, Stop> {
    let root = metadata.workspace_root.as_std_path();
    metadata.workspace_packages().into_iter().map(|package| member(root, package)).collect()
}

fn member(root: &Path, package: &Package) -> Result<Member, Stop> {
    let manifest = package.manifest_path.as_std_path();
    let text = fs::read_to_string(manifest).map_err(Stop::of(manifest.display()))?;
    let need = |dependency: &cargo_metadata::Dependency| Need {
        package: dependency.name.clone(),
        key: dependency.rename.clone().unwrap_or_else(|| dependency.name.clone()),
        dev: dependency.kind == DependencyKind::Development,
        optional: dependency.optional,
    };
    // What has a path is of this workspace: everything else comes from a registry.
    let ours = package.dependencies.iter().filter(|dependency| dependency.path.is_some());
    Ok(Member {
        package: package.name.to_string(),
        manifest: manifest.strip_prefix(root).unwrap_or(manifest).to_owned(),
        text,
        needs: ours.map(need).collect(),
    })
}

/// Dependencies that the table doesn't have. Those for tests only are free.
pub fn arrows(members: &[Member]) -> Vec<Problem> {
    let mut problems = Vec::new();
    for member in members {
        let folder = member.manifest.parent().and_then(Path::file_name).map(|name| name.to_string_lossy());
        let expected = folder.map(|folder| format!("{PREFIX}{folder}"));
        if expected.as_ref().is_some_and(|expected| *expected != member.package) {
            let to_do = format!("name it {}, after its folder", expected.unwrap_or_default());
            problems.push(member.problem("name", format!("the package is {}", member.package), &to_do));
            continue;
        }
        let Some((_, may)) = ARROWS.iter().find(|(name, _)| *name == member.name()) else {
            let what = format!("{} is not in the table of arrows", member.name());
            let to_do = "give it a row in infra/xtask/src/architecture.rs";
            problems.push(member.problem("name", what, to_do));
            continue;
        };
        for need in member.needs.iter().filter(|need| !need.dev) {
            let needed = short(&need.package);
            let allowed = match may {
                May::Only(names) => names.contains(&needed),
                May::Product => !NOT_PRODUCT.contains(&needed),
                May::Anything => true,
            };
            if !allowed {
                let what = format!("{} must not depend on {needed}", member.name());
                let to_do = "turn the arrow round: let a port say what is needed, and the host wire it";
                problems.push(member.problem(&need.key, what, to_do));
            } else if member.name() == "host" && needed == "aws" && !need.optional {
                let what = "the host depends on aws without its feature".to_owned();
                problems.push(member.problem(
                    &need.key,
                    what,
                    "make it optional, so that a laptop compiles no SDK",
                ));
            }
        }
    }
    problems
}

/// Circles, dependencies for tests included: cargo allows those, and builds such crates twice.
pub fn cycles(members: &[Member]) -> Vec<Problem> {
    let by_package: BTreeMap<&str, &Member> =
        members.iter().map(|member| (member.package.as_str(), member)).collect();
    let mut problems = Vec::new();
    let mut told = BTreeSet::new();
    for member in members {
        for need in &member.needs {
            let next = |package: &&str| -> Vec<&str> {
                let needs = by_package.get(package).map(|member| member.needs.as_slice()).unwrap_or_default();
                needs.iter().map(|need| need.package.as_str()).collect()
            };
            let Some(back) = path(need.package.as_str(), |at| *at == member.package, next) else { continue };
            let circle: BTreeSet<&str> = back.iter().copied().collect();
            if told.insert(circle) {
                let round: Vec<&str> = back.into_iter().map(short).collect();
                let what = format!("{} -> {} is a circle", member.name(), round.join(" -> "));
                problems.push(member.problem(&need.key, what, "move the test into a crate under tests/"));
            }
        }
    }
    problems
}

/// What must not be below the pure crates, with the way that it came in.
fn impurities(metadata: &Metadata, members: &[Member]) -> Vec<Problem> {
    let names: BTreeMap<&PackageId, &str> =
        metadata.packages.iter().map(|package| (&package.id, package.name.as_str())).collect();
    let name = |id: &PackageId| names.get(id).copied().unwrap_or_default();
    let mut below: BTreeMap<&PackageId, Vec<&PackageId>> = BTreeMap::new();
    for node in metadata.resolve.iter().flat_map(|resolve| &resolve.nodes) {
        let normal = node
            .deps
            .iter()
            .filter(|dep| dep.dep_kinds.iter().any(|kind| kind.kind == DependencyKind::Normal))
            .map(|dep| &dep.pkg);
        below.insert(&node.id, normal.collect());
    }
    let mut problems = Vec::new();
    for member in members.iter().filter(|member| PURE.contains(&member.name())) {
        let Some(start) = names.iter().find(|(_, name)| **name == member.package).map(|(id, _)| *id) else {
            continue;
        };
        for impure in IMPURE {
            let next = |id: &&PackageId| below.get(*id).cloned().unwrap_or_default();
            let Some(way) = path(start, |id| name(id) == *impure, next) else { continue };
            let way: Vec<&str> = way.into_iter().map(name).collect();
            let key = way.get(1).copied().map(short).unwrap_or_default();
            let what = format!("{} must be free of {impure}, but: {}", member.name(), way.join(" -> "));
            let to_do = "keep it pure: pass in what it needs, and do the work in an adapter";
            problems.push(member.problem(key, what, to_do));
        }
    }
    problems
}

/// The shortest way from `start` to what is wanted, both included.
fn path<T: Ord + Copy>(start: T, wanted: impl Fn(&T) -> bool, next: impl Fn(&T) -> Vec<T>) -> Option<Vec<T>> {
    let mut came_from: BTreeMap<T, Option<T>> = BTreeMap::from([(start, None)]);
    let mut ahead = VecDeque::from([start]);
    while let Some(at) = ahead.pop_front() {
        if wanted(&at) {
            let mut way = vec![at];
            let mut behind = came_from.get(&at).copied().flatten();
            while let Some(step) = behind {
                way.push(step);
                behind = came_from.get(&step).copied().flatten();
            }
            way.reverse();
            return Some(way);
        }
        for further in next(&at) {
            came_from.entry(further).or_insert_with(|| {
                ahead.push_back(further);
                Some(at)
            });
        }
    }
    None
}
