//! Tools on a runner's disk, after a job that wrote wherever it could.
#![expect(clippy::unwrap_used, reason = "a test ends by panicking")]

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use embedded::{DiskArtifacts, RandomIds};
use ports::Artifacts;
use runtime_cloud_functions::tools::{Manifest, ToolFile, install};

async fn published(artifacts: &DiskArtifacts) -> Manifest {
    let tool = async |name: &str, plugin: Option<&str>| ToolFile {
        name: name.to_owned(),
        digest: artifacts.put(name.as_bytes()).await.unwrap(),
        plugin: plugin.map(str::to_owned),
    };
    Manifest {
        files: vec![
            tool("pulumi", None).await,
            tool("pulumi-language-yaml", None).await,
            tool("pulumi-resource-random", Some("resource-random-v4.16.0")).await,
        ],
    }
}

/// Every file below a folder, by its path in it.
fn files(folder: &Path, below: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(below).unwrap() {
        let path = entry.unwrap().path();
        if fs::symlink_metadata(&path).unwrap().is_dir() {
            files(folder, &path, found);
        } else {
            found.push(path.strip_prefix(folder).unwrap().to_str().unwrap().to_owned());
        }
    }
    found.sort();
}

#[tokio::test]
async fn what_a_job_left_among_the_tools_is_gone_before_the_next_one() {
    let disk = tempfile::tempdir().unwrap();
    let artifacts = DiskArtifacts { folder: disk.path().join("bucket"), ids: Arc::new(RandomIds) };
    let manifest = published(&artifacts).await;
    let tools = disk.path().join("tools");
    install(&artifacts, &manifest, &tools).await.unwrap();

    let other = disk.path().join("other");
    fs::write(&other, b"#!/bin/sh").unwrap();
    // A changed tool, one that is a link to the same bytes, one that is a folder; plugins and programs that nobody published.
    fs::remove_file(tools.join("bin/pulumi")).unwrap();
    fs::write(tools.join("bin/pulumi"), b"another").unwrap();
    fs::remove_file(tools.join("bin/pulumi-language-yaml")).unwrap();
    fs::write(disk.path().join("twin"), b"pulumi-language-yaml").unwrap();
    fs::set_permissions(disk.path().join("twin"), fs::Permissions::from_mode(0o500)).unwrap();
    symlink(disk.path().join("twin"), tools.join("bin/pulumi-language-yaml")).unwrap();
    let random = tools.join("plugins/resource-random-v4.16.0/pulumi-resource-random");
    symlink(&other, tools.join("bin/pulumi-resource-evil")).unwrap();
    fs::create_dir_all(tools.join("plugins/resource-evil-v1.0.0/deep")).unwrap();
    fs::write(tools.join("plugins/resource-evil-v1.0.0/deep/pulumi-resource-evil"), b"x").unwrap();
    fs::write(tools.join("plugins/resource-random-v4.16.0/more"), b"x").unwrap();
    symlink(disk.path(), tools.join("elsewhere")).unwrap();
    fs::remove_file(&random).unwrap();
    fs::create_dir_all(random.join("deep")).unwrap();

    install(&artifacts, &manifest, &tools).await.unwrap();
    let mut found = vec![];
    files(&tools, &tools, &mut found);
    let wanted =
        ["bin/pulumi", "bin/pulumi-language-yaml", "plugins/resource-random-v4.16.0/pulumi-resource-random"];
    assert_eq!(found, wanted);
    for path in wanted {
        let path = tools.join(path);
        let about = fs::symlink_metadata(&path).unwrap();
        assert!(about.is_file() && about.permissions().mode() & 0o777 == 0o500, "{path:?}");
        assert_eq!(fs::read(&path).unwrap(), path.file_name().unwrap().as_encoded_bytes());
    }
    assert!(!tools.join("plugins/resource-evil-v1.0.0").exists());
    assert!(other.exists(), "what a link led to is nobody's business");
}
