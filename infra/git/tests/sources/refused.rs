//! What a checkout refuses, leaving nothing behind.

use std::fs;
use std::os::unix::fs::symlink;

use runtime_cloud_git::{GitError, Limits};

use crate::stage::{Stage, soon};

#[test]
fn paths_that_leave_the_repository_are_refused() {
    let stage = Stage::new();
    let commit = stage.head();
    for path in ["..", "../app", "app/../..", "/app", "/", "app/..", "a\\b"] {
        assert!(matches!(stage.checkout(&commit, path), Err(GitError::PathEscapes { .. })), "{path}");
    }
}

#[test]
fn an_existing_destination_is_left_alone() {
    let stage = Stage::new();
    let dest = stage.path("mine");
    fs::create_dir(&dest).unwrap();
    fs::write(dest.join("file"), "mine").unwrap();
    let refused = stage.source.checkout(&stage.address(), &stage.head(), "app", &dest, None, soon());
    assert!(matches!(refused, Err(GitError::DestinationExists { .. })));
    assert_eq!(fs::read_to_string(dest.join("file")).unwrap(), "mine");
}

#[test]
fn links_may_stay_inside_but_not_lead_out() {
    let stage = Stage::new();
    symlink("../app/Pulumi.yaml", stage.repo().join("app/inside")).unwrap();
    let inside = stage.commit("inside");
    let checkout = stage.checkout(&inside, "app").unwrap();
    assert_eq!(fs::read_to_string(checkout.program_dir.join("inside")).unwrap(), "name: app\n");
    for target in ["/etc/passwd", "../../outside", "inside/../../../x"] {
        symlink(target, stage.repo().join("app/outside")).unwrap();
        let commit = stage.commit("outside");
        assert!(matches!(stage.checkout(&commit, "app"), Err(GitError::LinkEscapes { .. })), "{target}");
        fs::remove_file(stage.repo().join("app/outside")).unwrap();
    }
}

#[test]
fn a_submodule_is_refused_in_the_program_and_left_out_elsewhere() {
    let stage = Stage::new();
    let head = stage.head();
    let entry = format!("160000,{head},lib/module");
    stage.git(&["update-index", "--add", "--cacheinfo", &entry]);
    stage.git(&["commit", "-q", "-m", "submodule"]);
    let commit = stage.head();
    let checkout = stage.checkout(&commit, "app").unwrap();
    assert!(!checkout.dir.join("lib/module").exists());
    for path in ["lib", "lib/module", ""] {
        let error = stage.checkout(&commit, path).unwrap_err();
        assert!(matches!(&error, GitError::Submodule { path } if path == "lib/module"), "{error:?}");
    }
}

#[test]
fn a_mode_that_git_does_not_know_is_no_submodule() {
    let stage = Stage::new();
    let blob = stage.git(&["rev-parse", "HEAD:app/Pulumi.yaml"]);
    let mut entry = b"777777 odd\0".to_vec();
    entry.extend((0..20).map(|n| u8::from_str_radix(&blob[2 * n..2 * n + 2], 16).unwrap()));
    let file = stage.path("tree");
    fs::write(&file, entry).unwrap();
    let file = file.to_str().unwrap();
    let tree = stage.git(&["hash-object", "-t", "tree", "-w", "--literally", file]);
    let commit = stage.git_with(&["commit-tree", &tree], "odd");
    let error = stage.checkout(&commit, "").unwrap_err();
    assert!(matches!(&error, GitError::BadMode { path } if path == "odd"), "{error:?}");
}

#[test]
fn an_lfs_pointer_is_refused_in_the_program_and_left_as_it_is_elsewhere() {
    let stage = Stage::new();
    let pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n";
    stage.write("big/model.bin", pointer);
    let commit = stage.commit("pointer");
    let checkout = stage.checkout(&commit, "app").unwrap();
    assert_eq!(fs::read_to_string(checkout.dir.join("big/model.bin")).unwrap(), pointer);
    let error = stage.checkout(&commit, "big").unwrap_err();
    assert!(matches!(error, GitError::LargeFilePointer { path } if path == "big/model.bin"));
}

#[test]
fn too_many_bytes_or_files_are_refused() {
    let stage = Stage::with(Limits { bytes: 100, ..Limits::default() });
    stage.write("app/large", &"x".repeat(101));
    let one_large = stage.commit("one large file");
    assert!(matches!(stage.checkout(&one_large, "app"), Err(GitError::TooLarge { .. })));
    stage.write("app/large", &"x".repeat(60));
    stage.write("app/more", &"x".repeat(60));
    let two = stage.commit("two files");
    assert!(matches!(stage.checkout(&two, "app"), Err(GitError::TooLarge { what: "bytes", .. })));
    let stage = Stage::with(Limits { files: 4, ..Limits::default() });
    stage.checkout(&stage.head(), "app").unwrap();
    stage.write("app/a", "");
    stage.write("app/b", "");
    let many = stage.commit("many files");
    assert!(matches!(stage.checkout(&many, "app"), Err(GitError::TooLarge { what: "files", .. })));
}

#[test]
fn names_that_could_do_harm_are_refused() {
    let stage = Stage::new();
    let blob = stage.git_with(&["hash-object", "-w", "--stdin"], "x");
    for name in [".git", ".GIT", "..", ".", "back\\slash"] {
        let tree = stage.git_with(&["mktree", "-z"], &format!("100644 blob {blob}\t{name}\0"));
        let commit = stage.git_with(&["commit-tree", &tree], "harm");
        assert!(matches!(stage.checkout(&commit, ""), Err(GitError::BadName { .. })), "{name}");
    }
}

#[test]
fn a_name_that_is_link_and_folder_is_not_followed() {
    let stage = Stage::new();
    let outside = stage.path("outside");
    fs::create_dir(&outside).unwrap();
    let target = stage.git_with(&["hash-object", "-w", "--stdin"], outside.to_str().unwrap());
    let blob = stage.git_with(&["hash-object", "-w", "--stdin"], "x");
    let inner = stage.git_with(&["mktree"], &format!("100644 blob {blob}\tfile\n"));
    let entries = format!("120000 blob {target}\tdir\0040000 tree {inner}\tdir\0");
    let tree = stage.git_with(&["mktree", "-z"], &entries);
    let commit = stage.git_with(&["commit-tree", &tree], "twice");
    assert!(stage.checkout(&commit, "").is_err());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
}

#[test]
fn addresses_that_could_start_a_program_or_show_a_secret_are_refused() {
    let stage = Stage::new();
    let trap = stage.path("ran");
    let helper = format!("ext::sh -c touch% {}", trap.display());
    for address in [helper.as_str(), "ssh://host/repo", "git@host:repo", "--upload-pack=x", "fd::3"] {
        let refused = stage.checkout_from(address, &stage.head(), "app");
        assert!(matches!(refused, Err(GitError::BadAddress { .. })), "{address}");
    }
    let error = stage.checkout_from("https://me:hush@host/repo", &stage.head(), "app").unwrap_err();
    assert!(matches!(error, GitError::CredentialInAddress));
    assert!(!error.to_string().contains("hush"));
    assert!(!trap.exists());
}
