//! Puts Pulumi, its language hosts and plugins into a bucket by their digests, with a manifest that names them.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::deploy::Aws;
use crate::problem::Stop;

/// The version of the provider of this machine: the product's.
const LOCAL: &str = concat!("resource-local-v", env!("CARGO_PKG_VERSION"));

/// The bucket of the tools.
pub struct Bucket {
    /// Its name.
    pub name: String,
    /// The account that it must be of, where that is asked.
    pub owner: Option<String>,
}

impl Bucket {
    /// Looks at it, or at something in it; fails too where it is somebody else's.
    pub fn head(&self, aws: &Aws, what: &[&str]) -> Result<String, Stop> {
        let mut arguments = vec!["s3api"];
        arguments.extend(what);
        arguments.extend(["--bucket", &self.name]);
        if let Some(owner) = &self.owner {
            arguments.extend(["--expected-bucket-owner", owner]);
        }
        aws.call(&arguments)
    }
}

/// What a tool of a digest is called in the bucket.
pub fn key(digest: &str) -> String {
    format!("tools/{digest}")
}

/// The plugins that a manifest names, but for the provider of this machine.
pub fn named(manifest: &str) -> BTreeSet<String> {
    let manifest: Value = serde_json::from_str(manifest).unwrap_or_default();
    let files = manifest.get("files").and_then(Value::as_array).into_iter().flatten();
    let plugins = files.filter_map(|f| f.get("plugin")?.as_str());
    plugins.filter(|p| !p.starts_with("resource-local-v")).map(str::to_owned).collect()
}

/// Publishes; the manifest's digest. Plugins are those of a folder as Pulumi keeps them.
pub fn publish(
    aws: &Aws,
    bucket: &Bucket,
    pulumi: &Path,
    local: Option<&Path>,
    plugins: Option<&Path>,
) -> Result<String, Stop> {
    let folder = pulumi.parent().ok_or_else(|| Stop::new("Pulumi lies in no folder"))?;
    let mut files = vec![];
    for name in ["pulumi", "pulumi-language-yaml"] {
        files.push((name.to_owned(), None, folder.join(name)));
    }
    if let Some(local) = local {
        files.push(("pulumi-resource-local".to_owned(), Some(LOCAL.to_owned()), local.to_owned()));
    }
    if let Some(folder) = plugins {
        files.extend(self::plugins(folder)?);
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

/// The files of each plugin in a folder, as `~/.pulumi/plugins` has them: `resource-random-v4.16.0/…`.
fn plugins(folder: &Path) -> Result<Vec<(String, Option<String>, PathBuf)>, Stop> {
    let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let mut found = vec![];
    for plugin in entries(folder)? {
        // A lock or a half-fetched one is no plugin.
        let kind = name(&plugin);
        if !plugin.is_dir() || !kind.contains("-v") || kind.ends_with(".partial") {
            continue;
        }
        let files = entries(&plugin)?;
        if !files.iter().any(|f| name(f).starts_with("pulumi-")) {
            return Err(Stop::new(format!("{} holds no plugin: install it again", plugin.display())));
        }
        for file in files {
            if !file.is_file() {
                let hint =
                    "plugins of several folders, as those that bring Node or Python, can't be published";
                return Err(Stop::new(format!("{} is a folder: {hint}", file.display())));
            }
            found.push((name(&file), Some(kind.clone()), file));
        }
    }
    if found.is_empty() {
        return Err(Stop::new(format!(
            "{} holds no plugin: give Pulumi's own folder of them",
            folder.display()
        )));
    }
    Ok(found)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Stop> {
    let read = fs::read_dir(folder).map_err(Stop::of(folder.display()))?;
    let mut entries = vec![];
    for entry in read {
        entries.push(entry.map_err(Stop::of(folder.display()))?.path());
    }
    entries.sort();
    Ok(entries)
}

fn put(aws: &Aws, bucket: &Bucket, path: &Path) -> Result<String, Stop> {
    let digest = sha256(path)?;
    let key = key(&digest);
    if bucket.head(aws, &["head-object", "--key", &key]).is_err() {
        let from = path.to_string_lossy().into_owned();
        // cp asks for no owner; it was asked for, or the bucket made, before this.
        aws.call(&["s3", "cp", "--only-show-errors", &from, &format!("s3://{}/{key}", bucket.name)])?;
    }
    Ok(digest)
}

fn sha256(path: &Path) -> Result<String, Stop> {
    let output = Command::new("sha256sum").arg(path).output().map_err(Stop::of("sha256sum"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let digest = said.split_whitespace().next().filter(|d| d.len() == 64);
    digest.map(str::to_owned).ok_or_else(|| Stop::new(format!("{} has no digest", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugins_of_a_manifest_are_told() {
        let files = json!([{"name": "pulumi"}, {"name": "pulumi-resource-local", "plugin": LOCAL},
                           {"name": "b", "plugin": "resource-random-v4.16.0"},
                           {"name": "a", "plugin": "resource-random-v4.16.0"}]);
        let found = named(&json!({"files": files}).to_string());
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["resource-random-v4.16.0"]);
        assert!(named("").is_empty());
    }

    #[test]
    fn the_plugins_of_a_folder_are_found_whole() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        };
        put("resource-random-v4.16.0/pulumi-resource-random");
        put("resource-random-v4.16.0/PulumiPlugin.yaml");
        put("resource-random-v4.16.0.lock");
        put("resource-tls-v5.0.0.partial/pulumi-resource-tls");
        let found = plugins(folder.path()).unwrap();
        let names: Vec<_> =
            found.iter().map(|(name, plugin, _)| (name.as_str(), plugin.as_deref().unwrap())).collect();
        let plugin = "resource-random-v4.16.0";
        assert_eq!(names, [("PulumiPlugin.yaml", plugin), ("pulumi-resource-random", plugin)]);

        put("resource-node-v1.0.0/node_modules/x");
        put("resource-node-v1.0.0/pulumi-resource-node");
        assert!(plugins(folder.path()).is_err_and(|e| e.to_string().contains("node_modules")));
        let empty = tempfile::tempdir().unwrap();
        assert!(plugins(empty.path()).is_err());
    }
}
