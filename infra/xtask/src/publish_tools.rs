//! Puts Pulumi, its language hosts and plugins into a bucket by their digests, with a manifest that names them.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::deploy::Aws;
use crate::problem::Stop;

/// The version of the provider of this machine: the product's.
const LOCAL: &str = concat!("resource-local-v", env!("CARGO_PKG_VERSION"));

/// Publishes; the manifest's digest. Plugins are those below `PULUMI_HOME` or `~/.pulumi`, if there are any.
pub fn publish(aws: &Aws, bucket: &str, pulumi: &Path, local: Option<&Path>) -> Result<String, Stop> {
    let folder = pulumi.parent().ok_or_else(|| Stop::new("Pulumi lies in no folder"))?;
    let mut files = vec![];
    for name in ["pulumi", "pulumi-language-yaml"] {
        files.push((name.to_owned(), None, folder.join(name)));
    }
    if let Some(local) = local {
        files.push(("pulumi-resource-local".to_owned(), Some(LOCAL.to_owned()), local.to_owned()));
    }
    let mut entries = vec![];
    for (name, plugin, path) in &files {
        let digest = put(aws, bucket, path)?;
        let mut entry = json!({"name": name, "digest": digest});
        if let (Some(entry), Some(plugin)) = (entry.as_object_mut(), plugin) {
            entry.insert("plugin".to_owned(), json!(plugin));
        }
        entries.push(entry);
    }
    let manifest = tempfile::NamedTempFile::new().map_err(Stop::of("a temporary file"))?;
    fs::write(manifest.path(), json!({"files": entries}).to_string())
        .map_err(Stop::of(manifest.path().display()))?;
    put(aws, bucket, manifest.path())
}

fn put(aws: &Aws, bucket: &str, path: &Path) -> Result<String, Stop> {
    let digest = sha256(path)?;
    let key = format!("tools/{digest}");
    if aws.call(&["s3api", "head-object", "--bucket", bucket, "--key", &key]).is_err() {
        let from = path.to_string_lossy().into_owned();
        aws.call(&["s3", "cp", "--only-show-errors", &from, &format!("s3://{bucket}/{key}")])?;
    }
    Ok(digest)
}

fn sha256(path: &Path) -> Result<String, Stop> {
    let output = Command::new("sha256sum").arg(path).output().map_err(Stop::of("sha256sum"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let digest = said.split_whitespace().next().filter(|d| d.len() == 64);
    digest.map(str::to_owned).ok_or_else(|| Stop::new(format!("{} has no digest", path.display())))
}
