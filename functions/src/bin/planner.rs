//! The Planner's door: one message at a time, from its ordered queue.

use runtime_cloud_functions::door::logs;
use runtime_cloud_functions::queue::serve;
use runtime_cloud_functions::wiring::{Account, planner};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), lambda_runtime::Error> {
    logs();
    let account = Account::connect().await;
    serve(&account, planner(&account).await).await
}
