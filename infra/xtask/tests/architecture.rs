//! The arrows between the crates hold, and a wrong one is found.

use runtime_cloud_xtask::architecture::{Member, Need, arrows, check, cycles};
use runtime_cloud_xtask::cargo::Workspace;

#[test]
fn the_arrows_of_this_workspace_hold() {
    let metadata = Workspace::find().and_then(|workspace| workspace.metadata()).unwrap();
    let problems = check(&metadata).unwrap();
    let told: Vec<String> = problems.iter().map(ToString::to_string).collect();
    assert!(told.is_empty(), "\n{}", told.join("\n"));
}

/// A member in the folder of its name that needs others, each written `name`, `name?` (optional) or `name!`
/// (for tests only).
fn member(name: &str, needs: &[&str]) -> Member {
    let bare = |need: &str| need.trim_end_matches(['?', '!']).to_owned();
    let lines: Vec<String> = needs.iter().map(|need| format!("{}.workspace = true\n", bare(need))).collect();
    Member {
        package: format!("runtime-cloud-{name}"),
        manifest: format!("infra/{name}/Cargo.toml").into(),
        text: format!("[package]\nname = \"runtime-cloud-{name}\"\n[dependencies]\n{}", lines.concat()),
        needs: needs
            .iter()
            .map(|need| Need {
                package: format!("runtime-cloud-{}", bare(need)),
                key: bare(need),
                dev: need.ends_with('!'),
                optional: need.ends_with('?'),
            })
            .collect(),
    }
}

fn told(members: &[Member]) -> Vec<String> {
    arrows(members).iter().chain(&cycles(members)).map(ToString::to_string).collect()
}

#[track_caller]
fn refused(members: &[Member], beginning: &str) {
    let told = told(members);
    assert!(matches!(told.as_slice(), [one] if one.starts_with(beginning)), "{told:?} is not {beginning:?}");
}

#[test]
fn an_arrow_upwards_is_refused_at_its_line() {
    let members = [member("domain", &["events", "ports"]), member("ports", &[]), member("events", &[])];
    refused(&members, "infra/domain/Cargo.toml:5: domain must not depend on ports; ");
}

#[test]
fn an_arrow_between_adapters_is_refused() {
    refused(
        &[member("embedded", &["ports", "git"])],
        "infra/embedded/Cargo.toml:5: embedded must not depend on git; ",
    );
    refused(&[member("local", &["ports"])], "infra/local/Cargo.toml:4: local must not depend on ports; ");
    refused(
        &[member("process", &["events"])],
        "infra/process/Cargo.toml:4: process must not depend on events; ",
    );
}

#[test]
fn adapters_reach_ports_and_what_is_below() {
    let adapters = ["aws", "embedded", "git", "kubernetes", "policies", "pulumi"];
    let members = adapters.map(|name| member(name, &["ports", "domain", "events", "process"]));
    assert_eq!(told(&members), Vec::<String>::new());
}

#[test]
fn the_product_depends_on_no_test_and_no_task() {
    refused(&[member("host", &["contract"])], "infra/host/Cargo.toml:4: host must not depend on contract; ");
    refused(&[member("host", &["xtask"])], "infra/host/Cargo.toml:4: host must not depend on xtask; ");
    refused(&[member("xtask", &["events"])], "infra/xtask/Cargo.toml:4: xtask must not depend on events; ");
}

#[test]
fn the_host_has_the_cloud_only_with_a_feature() {
    refused(
        &[member("host", &["aws"])],
        "infra/host/Cargo.toml:4: the host depends on aws without its feature; ",
    );
    assert_eq!(told(&[member("host", &["aws?", "http", "local"])]), Vec::<String>::new());
}

#[test]
fn tests_may_depend_on_anything_but_not_in_a_circle() {
    let suite = member("contract", &["ports", "host"]);
    assert_eq!(told(&[member("embedded", &["contract!"]), suite.clone()]), Vec::<String>::new());
    refused(
        &[member("ports", &["contract!"]), suite],
        "infra/ports/Cargo.toml:4: ports -> contract -> ports is a circle; ",
    );
}

#[test]
fn a_crate_without_a_row_or_with_a_foreign_name_is_refused() {
    refused(
        &[member("newcomer", &[])],
        "infra/newcomer/Cargo.toml:2: newcomer is not in the table of arrows; ",
    );
    let stranger = Member { package: "runtime-cloud-other".into(), ..member("embedded", &[]) };
    refused(&[stranger], "infra/embedded/Cargo.toml:2: the package is runtime-cloud-other; name it ");
}
