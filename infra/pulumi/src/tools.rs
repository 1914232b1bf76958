//! Finding Pulumi and its language hosts on this machine, or fetching or building them once.

mod cache;
mod error;
mod go_build;
mod installed;
mod release;
mod run;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use semver::Version;

use cache::Cache;
pub use error::{Attempt, AttemptError, ToolsError, Way};

/// The version that is fetched or built. Plans, events and exit codes were measured with this one.
pub const PULUMI_VERSION: Version = Version::new(3, 274, 1);

/// The version of the YAML language host that is built along; a release brings its own.
pub const YAML_HOST_VERSION: Version = Version::new(1, 25, 0);

/// The oldest version taken from `PATH`.
pub const MINIMUM_VERSION: Version = Version::new(3, 270, 0);

const PULUMI: &str = "pulumi";
const YAML_HOST: &str = "pulumi-language-yaml";
const HOST_PREFIX: &str = "pulumi-language-";

/// Where to look for Pulumi. Each way can be turned off.
#[derive(Debug, Clone)]
pub struct ToolsSettings {
    /// The folders to look in, written like `PATH`; `None` looks in none.
    pub search_path: Option<OsString>,
    /// Where fetched and built tools are kept.
    pub cache: PathBuf,
    /// The release to fetch; `None` fetches none.
    pub release: Option<ReleaseSettings>,
    /// How to build from Go modules; `None` builds nothing.
    pub go: Option<GoSettings>,
}

/// Where an official release comes from.
///
/// The archive is checked against `sha256` if that is given, and otherwise against the release's own list of
/// checksums: that guards against damage and against one of the two servers, not against a release that was
/// replaced together with its list. No checksum is compiled in.
#[derive(Debug, Clone)]
pub struct ReleaseSettings {
    /// The folder of the archives, such as `https://get.pulumi.com/releases/sdk`.
    pub base_url: String,
    /// The list of checksums: lines of a SHA-256 in hex and a file name.
    pub checksums_url: String,
    /// The archive's SHA-256 in hex, when the operator pins it; then no list is fetched.
    pub sha256: Option<String>,
}

/// How to build from Go modules.
#[derive(Debug, Clone)]
pub struct GoSettings {
    /// The `go` program.
    pub program: PathBuf,
    /// How long each of the two builds may take.
    pub limit: Duration,
}

impl ToolsSettings {
    /// The usual settings: this process's `PATH`, the user's cache folder, the official release, `go`.
    pub fn usual() -> Self {
        let user_cache = directories::ProjectDirs::from("", "", "runtime-cloud")
            .map_or_else(|| PathBuf::from(".runtime-cloud-cache"), |dirs| dirs.cache_dir().to_owned());
        let version = PULUMI_VERSION;
        Self {
            search_path: std::env::var_os("PATH"),
            cache: user_cache.join("pulumi"),
            release: Some(ReleaseSettings {
                base_url: "https://get.pulumi.com/releases/sdk".into(),
                checksums_url: format!(
                    "https://github.com/pulumi/pulumi/releases/download/v{version}/pulumi-{version}-checksums.txt"
                ),
                sha256: None,
            }),
            go: Some(GoSettings { program: "go".into(), limit: Duration::from_secs(30 * 60) }),
        }
    }
}

/// Pulumi and its language hosts, ready to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tools {
    /// The `pulumi` program.
    pub pulumi: PathBuf,
    /// Folders that must be on `PATH` for Pulumi to find its language hosts.
    pub path_dirs: Vec<PathBuf>,
    /// What `pulumi version` says.
    pub version: Version,
    /// SHA-256 in hex of `pulumi` and of each language host, by program name.
    pub digests: BTreeMap<String, String>,
    /// How they were found.
    pub origin: Origin,
}

/// How the tools came to be on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Installed by somebody, found on `PATH`.
    Installed,
    /// Kept from an earlier time.
    Cached,
    /// Just fetched from a release.
    Release,
    /// Just built from Go modules.
    Built,
}

/// What a person may want to see while it takes time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// Another process is getting the tools; this one waits for it.
    WaitingForAnother,
    /// An archive is coming in.
    Downloading {
        /// Bytes so far.
        received: u64,
        /// Bytes in all, where the server says so.
        total: Option<u64>,
    },
    /// The archive is complete and right, and is being unpacked.
    Unpacking,
    /// A program is being built.
    Building {
        /// Which.
        program: &'static str,
        /// The last thing that Go said about it.
        line: String,
    },
}

/// Finds Pulumi: on `PATH`, in the cache, from the official release, or built from Go modules.
///
/// Blocks, for minutes if it builds. Of several processes that call it at once only one fetches or builds.
pub fn find_or_get(settings: &ToolsSettings, progress: &dyn Fn(Progress)) -> Result<Tools, ToolsError> {
    let mut attempts = Vec::new();
    let mut failed = |way: Way, error: AttemptError| {
        tracing::debug!(?way, %error, "Pulumi was not found this way");
        attempts.push(Attempt { way, error });
    };
    match &settings.search_path {
        None => failed(Way::Installed, AttemptError::TurnedOff),
        Some(path) => match installed::find(path) {
            Ok(tools) => return Ok(tools),
            Err(error) => failed(Way::Installed, error),
        },
    }
    let cache_error = |source| ToolsError::Cache { folder: settings.cache.clone(), source };
    let cache = Cache::open(&settings.cache, progress).map_err(cache_error)?;
    match cache.stored() {
        Ok(tools) => return Ok(tools),
        Err(error) => failed(Way::Cached, error),
    }
    match &settings.release {
        None => failed(Way::Release, AttemptError::TurnedOff),
        Some(release) => match get(&cache, |folder| release::fetch(release, folder, progress)) {
            Ok(tools) => return Ok(Tools { origin: Origin::Release, ..tools }),
            Err(error) => failed(Way::Release, error),
        },
    }
    match &settings.go {
        None => failed(Way::Built, AttemptError::TurnedOff),
        Some(go) => match get(&cache, |folder| go_build::build(go, folder, progress)) {
            Ok(tools) => return Ok(Tools { origin: Origin::Built, ..tools }),
            Err(error) => failed(Way::Built, error),
        },
    }
    Err(ToolsError::NoWay { attempts })
}

/// Lets `fill` put the programs into a new folder and keeps it only if they are complete and run.
fn get(cache: &Cache, fill: impl FnOnce(&Path) -> Result<(), AttemptError>) -> Result<Tools, AttemptError> {
    let new = cache.new_folder()?;
    let programs = new.path().join("bin");
    std::fs::create_dir(&programs)?;
    fill(&programs)?;
    cache.keep(new)
}
