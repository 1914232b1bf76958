//! The API's door: requests that come in at the function's URL.

use lambda_http::Error;
use runtime_cloud_functions::api::router;
use runtime_cloud_functions::door::{cannot_begin, logs};
use runtime_cloud_functions::wiring::Account;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    logs();
    let account = Account::connect().await;
    let router = router(&account).await.map_err(|e| cannot_begin(&e))?;
    lambda_http::run(router).await
}
