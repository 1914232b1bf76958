//! Pulumi, looked for when it is first needed.

use std::sync::Arc;

use ports::PortError;
use tokio::sync::OnceCell;

use crate::tools::{self, Tools, ToolsSettings};

/// Pulumi, once it is there.
pub struct ToolBox {
    settings: ToolsSettings,
    progress: Box<dyn Fn(tools::Progress) + Send + Sync>,
    found: OnceCell<Arc<Tools>>,
}

impl ToolBox {
    /// Looks for Pulumi when it is first needed; `progress` is told of a download or a build.
    pub fn new(
        settings: ToolsSettings,
        progress: impl Fn(tools::Progress) + Send + Sync + 'static,
    ) -> Arc<ToolBox> {
        Arc::new(ToolBox { settings, progress: Box::new(progress), found: OnceCell::new() })
    }

    /// One that has it already.
    pub fn having(tools: Tools) -> Arc<ToolBox> {
        let found = OnceCell::new_with(Some(Arc::new(tools)));
        let nothing = ToolsSettings { search_path: None, cache: "".into(), release: None, go: None };
        Arc::new(ToolBox { settings: nothing, progress: Box::new(|_| {}), found })
    }

    /// Finds, fetches or builds it.
    pub async fn get(self: &Arc<Self>) -> Result<Arc<Tools>, PortError> {
        let this = Arc::clone(self);
        let find = || async move {
            let found =
                tokio::task::spawn_blocking(move || tools::find_or_get(&this.settings, &*this.progress));
            match found.await {
                Ok(Ok(tools)) => Ok(Arc::new(tools)),
                Ok(Err(e)) => {
                    Err(PortError::broken_by("Pulumi is not to be had", ports::error::chain(&e), e))
                }
                Err(e) => Err(PortError::unavailable("Pulumi", e)),
            }
        };
        self.found.get_or_try_init(find).await.cloned()
    }
}
