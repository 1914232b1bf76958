//! The life of a file.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use serde_json::{Value, json};

use crate::stage::Stage;

fn file(stage: &Stage, properties: Value) {
    stage.program(json!({"f": {"type": "local:index:File", "properties": properties}}), json!({}));
}

#[test]
fn created_changed_moved_and_deleted() {
    let stage = Stage::new();
    let path = |name: &str| stage.root().join("files").join(name);
    file(&stage, json!({"path": "etc/app.conf", "content": "one"}));
    stage.up().ok();
    assert_eq!(fs::read_to_string(path("etc/app.conf")).unwrap(), "one");
    let outputs = &stage.resource("f")["outputs"];
    assert_eq!(outputs["size"], 3);
    assert_eq!(outputs["sha256"], "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed");
    stage.unchanged();

    file(&stage, json!({"path": "etc/app.conf", "content": "two", "mode": "0600"}));
    stage.up().ok();
    assert_eq!(fs::read_to_string(path("etc/app.conf")).unwrap(), "two");
    assert_eq!(fs::metadata(path("etc/app.conf")).unwrap().permissions().mode() & 0o777, 0o600);

    fs::write(path("etc/app.conf"), "edited by hand").unwrap();
    stage.refresh().ok();
    assert_eq!(stage.resource("f")["inputs"]["content"], "edited by hand");
    stage.up().ok();
    assert_eq!(fs::read_to_string(path("etc/app.conf")).unwrap(), "two");

    fs::remove_file(path("etc/app.conf")).unwrap();
    stage.refresh().ok();
    assert!(stage.resource("f").is_null());
    stage.up().ok();
    assert!(path("etc/app.conf").exists());

    file(&stage, json!({"path": "grüße \"1\"\\/ä::b.txt", "content": "two"}));
    stage.up().ok();
    assert!(!path("etc").exists(), "the old file goes, with its empty folder");
    assert_eq!(fs::read_to_string(path("grüße \"1\"\\/ä::b.txt")).unwrap(), "two");
    stage.destroy().ok();
    assert_eq!(fs::read_dir(stage.root().join("files")).unwrap().count(), 0);
}

#[test]
fn escapes_are_refused() {
    let stage = Stage::new();
    for path in ["../out", "/etc/out", "a/../../out", ""] {
        file(&stage, json!({"path": path, "content": "x"}));
        let said = stage.preview().failed();
        assert!(said.contains("path"), "{said}");
    }
    let outside = stage.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("victim"), "safe").unwrap();
    fs::create_dir_all(stage.root().join("files")).unwrap();
    symlink(&outside, stage.root().join("files/way")).unwrap();
    symlink(outside.join("victim"), stage.root().join("files/end")).unwrap();
    for path in ["way/victim", "way/new", "end"] {
        file(&stage, json!({"path": path, "content": "x"}));
        let said = stage.up().failed();
        assert!(said.contains("link"), "{said}");
        assert!(stage.resource("f").is_null());
    }
    assert_eq!(fs::read_to_string(outside.join("victim")).unwrap(), "safe");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_secret_content_is_in_the_file_only() {
    let stage = Stage::new();
    file(&stage, json!({"path": "key", "content": {"fn::secret": "hush-hush"}}));
    stage.up().ok();
    stage.refresh().ok();
    stage.unchanged();
    let path = stage.root().join("files/key");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fs::read_to_string(&path).unwrap(), "hush-hush");
    // The digest of a short secret gives it away too.
    assert!(stage.resource("f")["outputs"]["sha256"]["ciphertext"].is_string());
    fs::remove_file(path).unwrap();
    stage.nowhere_but_the_program("hush-hush");
}

#[test]
fn a_file_that_is_not_ours_is_imported_or_left_alone() {
    let stage = Stage::new();
    fs::create_dir_all(stage.root().join("files")).unwrap();
    fs::write(stage.root().join("files/mine"), "by hand").unwrap();
    file(&stage, json!({"path": "mine", "content": "from pulumi"}));
    let said = stage.up().failed();
    assert!(said.contains("import"), "{said}");
    assert_eq!(fs::read_to_string(stage.root().join("files/mine")).unwrap(), "by hand");

    let arguments =
        ["import", "local:index:File", "f", "mine", "--yes", "--generate-code=false", "--protect=false"];
    stage.pulumi(&arguments).ok();
    assert_eq!(stage.resource("f")["inputs"]["content"], "by hand");
    stage.up().ok();
    assert_eq!(fs::read_to_string(stage.root().join("files/mine")).unwrap(), "from pulumi");

    stage.program(
        json!({
            "f": {"type": "local:index:File", "properties": {"path": "mine", "content": "from pulumi"}},
            "g": {"type": "local:index:File", "properties": {"path": "mine", "content": "from pulumi"}},
        }),
        json!({}),
    );
    let said = stage.up().failed();
    assert!(said.contains("already belongs to"), "{said}");
}
