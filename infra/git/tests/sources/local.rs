//! Repositories on this machine.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

use runtime_cloud_git::GitError;

use crate::stage::{Stage, soon};

#[test]
fn branches_tags_head_and_hashes_are_resolved() {
    let stage = Stage::new();
    let first = stage.head();
    stage.git(&["tag", "-a", "v1", "-m", "annotated"]);
    stage.git(&["branch", "feature/one"]);
    let second = stage.commit("second");
    let expected = [
        ("main", &second),
        ("HEAD", &second),
        ("refs/heads/main", &second),
        ("v1", &first),
        ("refs/tags/v1", &first),
        ("feature/one", &first),
        (&first[..7], &first),
        (first.as_str(), &first),
    ];
    for (reference, commit) in expected {
        assert_eq!(&stage.resolve(reference).unwrap(), commit, "{reference}");
    }
    let file = format!("file://{}", stage.address());
    assert_eq!(stage.source.resolve(&file, "main", None, soon()).unwrap(), second);
}

#[test]
fn a_name_that_is_not_there_is_not_found() {
    let stage = Stage::new();
    for reference in ["absent", "refs/heads/absent", "deadbeef", "v9"] {
        let error = stage.resolve(reference).unwrap_err();
        assert!(matches!(error, GitError::ReferenceNotFound { .. }), "{reference}: {error:?}");
        assert!(!error.is_retryable());
    }
}

#[test]
fn a_name_that_is_none_is_refused() {
    let stage = Stage::new();
    for reference in ["", "-main", "a..b", "main@{1}", "main~1", "a b", "main:app", "a/", "x.lock", "^main"] {
        let error = stage.resolve(reference).unwrap_err();
        assert!(matches!(error, GitError::BadReference { .. }), "{reference}: {error:?}");
    }
}

#[test]
fn a_tag_of_a_file_or_a_folder_is_said_to_be_one() {
    let stage = Stage::new();
    for (tag, object, kind) in [("blob", "HEAD:app/Pulumi.yaml", "file"), ("tree", "HEAD^{tree}", "folder")] {
        let object = stage.git(&["rev-parse", object]);
        stage.git(&["tag", tag, &object]);
        stage.git(&["tag", "-a", &format!("{tag}2"), "-m", "annotated", &object]);
        for reference in [tag.to_owned(), format!("{tag}2"), format!("refs/tags/{tag}")] {
            let error = stage.resolve(&reference).unwrap_err();
            assert!(matches!(error, GitError::NotACommit { .. }), "{reference}: {error:?}");
            assert!(error.to_string().contains(kind), "{error}");
        }
    }
}

#[test]
fn every_error_says_what_to_do_once() {
    let stage = Stage::new();
    let error = stage.resolve("HEAD~1").unwrap_err().to_string();
    assert!(error.contains("HEAD~1") && error.matches("; ").count() == 1, "{error}");
}

#[test]
fn a_name_that_is_branch_and_tag_must_mean_one_commit() {
    let stage = Stage::new();
    let first = stage.head();
    stage.git(&["branch", "both"]);
    stage.git(&["tag", "both"]);
    assert_eq!(stage.resolve("both").unwrap(), first);
    stage.commit("second");
    stage.git(&["tag", "-f", "both"]);
    assert!(matches!(stage.resolve("both"), Err(GitError::Ambiguous { .. })));
}

#[test]
fn a_short_hash_that_means_two_commits_is_ambiguous() {
    let stage = Stage::new();
    // So many commits that two of them begin alike.
    let stream: String = (0..2000)
        .map(|number| {
            format!("commit refs/heads/n{number}\ncommitter T <t@example.com> {number} +0000\ndata 0\n\n")
        })
        .collect();
    stage.git_with(&["fast-import", "--quiet"], &stream);
    let list = stage.git(&["rev-list", "--all"]);
    let mut hashes: Vec<&str> = list.lines().collect();
    hashes.sort_unstable();
    let pair = hashes.windows(2).find(|pair| pair[0][..4] == pair[1][..4]).unwrap();
    match stage.resolve(&pair[0][..4]) {
        Err(GitError::Ambiguous { candidates, .. }) => {
            assert!(candidates.iter().any(|found| found == pair[0]));
            assert!(candidates.iter().any(|found| found == pair[1]));
        }
        other => panic!("{other:?}"),
    }
    assert_eq!(stage.resolve(&pair[0][..20]).unwrap(), pair[0]);
}

#[test]
fn a_checkout_has_the_files_their_modes_and_no_repository() {
    let stage = Stage::new();
    stage.write("shared/base.txt", "base");
    let commit = stage.commit("second");
    let checkout = stage.checkout(&commit, "app").unwrap();
    assert_eq!(checkout.program_dir, checkout.dir.join("app"));
    let mode = |file| fs::metadata(checkout.dir.join(file)).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode("app/run.sh"), 0o755);
    assert_eq!(mode("app/Pulumi.yaml"), 0o644);
    assert_eq!(fs::read_to_string(checkout.dir.join("shared/base.txt")).unwrap(), "base");
    assert!(!checkout.dir.join(".git").exists());
}

#[test]
fn the_digest_tells_trees_apart_and_nothing_else() {
    let stage = Stage::new();
    let first = stage.head();
    let same_files = stage.commit("second");
    stage.write("app/Pulumi.yaml", "name: other\n");
    let other_files = stage.commit("third");
    stage.git(&["update-index", "--chmod=-x", "app/run.sh"]);
    stage.git(&["commit", "-q", "-m", "fourth"]);
    let other_mode = stage.head();
    let digest = |commit: &str| stage.checkout(commit, "app").unwrap().tree_digest;
    assert_eq!(digest(&first), digest(&same_files));
    assert_ne!(digest(&first), digest(&other_files));
    assert_ne!(digest(&other_files), digest(&other_mode));
}

#[test]
fn the_root_and_untidy_paths_are_programs_too() {
    let stage = Stage::new();
    let commit = stage.head();
    let root = stage.checkout(&commit, "").unwrap();
    assert!(root.program_dir.join("app/Pulumi.yaml").exists());
    let untidy = stage.checkout(&commit, "./app//").unwrap();
    assert!(untidy.program_dir.join("Pulumi.yaml").exists());
}

#[test]
fn the_working_copy_is_neither_used_nor_changed() {
    let stage = Stage::new();
    let commit = stage.head();
    stage.write("app/Pulumi.yaml", "name: edited\n");
    stage.write("app/new.txt", "untracked");
    let before = listing(&stage.repo());
    let checkout = stage.checkout(&commit, "app").unwrap();
    assert_eq!(fs::read_to_string(checkout.program_dir.join("Pulumi.yaml")).unwrap(), "name: app\n");
    assert!(!checkout.program_dir.join("new.txt").exists());
    assert_eq!(listing(&stage.repo()), before);
}

/// Every file below with the time of its last change.
fn listing(folder: &std::path::Path) -> Vec<(std::path::PathBuf, std::time::SystemTime)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        found.push((entry.path(), entry.metadata().unwrap().modified().unwrap()));
        if entry.file_type().unwrap().is_dir() {
            found.extend(listing(&entry.path()));
        }
    }
    found.sort();
    found
}

#[test]
fn programs_named_by_the_repository_do_not_run() {
    let stage = Stage::new();
    let trap = stage.path("ran");
    let run = format!("touch {}", trap.display());
    stage.write(".gitattributes", "* filter=trap\n");
    let commit = stage.commit("with a filter");
    for key in
        ["filter.trap.smudge", "filter.trap.process", "core.fsmonitor", "core.sshCommand", "core.pager"]
    {
        stage.git(&["config", key, &run]);
    }
    stage.git(&["config", "filter.trap.required", "true"]);
    for hook in ["post-checkout", "post-merge", "reference-transaction"] {
        let file = stage.repo().join(".git/hooks").join(hook);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, format!("#!/bin/sh\n{run}\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(stage.resolve("main").unwrap(), commit);
    stage.checkout(&commit, "app").unwrap();
    assert!(!trap.exists());
}

#[test]
fn a_commit_dropped_by_a_forced_push_is_still_in_the_cache() {
    let stage = Stage::new();
    stage.write("app/dropped.txt", "x");
    let dropped = stage.commit("dropped");
    let first = stage.checkout(&dropped, "app").unwrap();
    fs::remove_dir_all(stage.repo()).unwrap();
    let second = stage.checkout(&dropped, "app").unwrap();
    assert_eq!(first.tree_digest, second.tree_digest);
}

#[test]
fn a_damaged_cache_is_made_anew_while_the_repository_is_there() {
    let stage = Stage::new();
    let commit = stage.head();
    let first = stage.checkout(&commit, "app").unwrap();
    let blob = stage.git(&["rev-parse", "HEAD:app/Pulumi.yaml"]);
    let caches: Vec<_> =
        fs::read_dir(stage.path("caches")).unwrap().map(|entry| entry.unwrap().path()).collect();
    let cache = caches.iter().find(|path| path.is_dir()).unwrap();
    let object = cache.join("objects").join(&blob[..2]).join(&blob[2..]);
    fs::set_permissions(&object, fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(&object, "").unwrap();
    let second = stage.checkout(&commit, "app").unwrap();
    assert_eq!(first.tree_digest, second.tree_digest);
}

#[test]
fn what_is_not_there_is_said() {
    let stage = Stage::new();
    let commit = stage.head();
    let nowhere = stage.path("nowhere").to_str().unwrap().to_owned();
    assert!(matches!(stage.checkout_from(&nowhere, &commit, "app"), Err(GitError::Gone { .. })));
    assert!(matches!(stage.source.resolve(&nowhere, "main", None, soon()), Err(GitError::Gone { .. })));
    let no_repository = stage.path("served").to_str().unwrap().to_owned();
    assert!(matches!(stage.checkout_from(&no_repository, &commit, "app"), Err(GitError::Gone { .. })));
    let absent = "0123456789abcdef0123456789abcdef01234567";
    assert!(matches!(stage.checkout(absent, "app"), Err(GitError::CommitNotFound { .. })));
    let tree = stage.git(&["rev-parse", "HEAD^{tree}"]);
    assert!(matches!(stage.checkout(&tree, "app"), Err(GitError::NotACommit { .. })));
    assert!(matches!(stage.checkout(&commit[..10], "app"), Err(GitError::NotACommitHash { .. })));
    for path in ["absent", "app/absent", "app/Pulumi.yaml"] {
        assert!(matches!(stage.checkout(&commit, path), Err(GitError::PathNotFound { .. })), "{path}");
    }
}

#[test]
fn a_passed_deadline_is_a_retryable_error() {
    let stage = Stage::new();
    let dest = stage.new_dest();
    let late = stage.source.checkout(&stage.address(), &stage.head(), "app", &dest, None, Instant::now());
    let error = late.unwrap_err();
    assert!(matches!(error, GitError::TimedOut { .. }), "{error:?}");
    assert!(error.is_retryable());
    assert!(!dest.exists());
}
