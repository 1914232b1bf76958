//! Running as a plugin of Pulumi's engine.

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use pulumi_gestalt_proto::pulumi::pulumirpc::resource_provider_server::ResourceProviderServer;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::folder::Cancel;
use crate::provider::Provider;

/// The engine's own limit; contents of files travel in one message.
const MOST_BYTES: usize = 400 * 1024 * 1024;

/// Serves the provider until the engine ends or says so; the arguments start with the program's
/// name, as those of a process do. Returns the process's exit code.
pub fn serve(args: impl Iterator<Item = OsString>) -> i32 {
    // Pulumi may pass flags of its own too.
    let engine = args.skip(1).find(|argument| !argument.as_encoded_bytes().starts_with(b"-"));
    if engine.is_none() {
        eprintln!(
            "pulumi-resource-local is started by Pulumi, which passes its engine's address: run `pulumi up`"
        );
        return 2;
    }
    let result = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().and_then(
        |runtime| {
            let result = runtime.block_on(run());
            // Dropping waits for operations in flight, also when nobody is left to hear of them.
            drop(runtime);
            result
        },
    );
    match result {
        Ok(()) => 0,
        Err(error) => {
            eprintln!("pulumi-resource-local ended: {error}");
            1
        }
    }
}

async fn run() -> io::Result<()> {
    let provider = Provider::default();
    let over = over(Arc::clone(&provider.cancel))?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let port = listener.local_addr()?.port();
    let mut out = io::stdout().lock();
    writeln!(out, "{port}")?;
    out.flush()?;
    drop(out);
    let service = ResourceProviderServer::new(provider)
        .max_decoding_message_size(MOST_BYTES)
        .max_encoding_message_size(MOST_BYTES);
    // Without it each small answer waits for the engine's delayed acknowledgement.
    let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
    Server::builder()
        .add_service(service)
        .serve_with_incoming_shutdown(incoming, over)
        .await
        .map_err(io::Error::other)
}

/// Ends when the engine is gone or asks us to end; operations then stop waiting.
fn over(cancel: Arc<Cancel>) -> io::Result<impl Future<Output = ()>> {
    let parent = rustix::process::getppid();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    // Not the parent's death signal: that fires when the thread that forked us ends.
    let orphaned = async move {
        let mut look = tokio::time::interval(Duration::from_millis(200));
        loop {
            look.tick().await;
            if rustix::process::getppid() != parent {
                return;
            }
        }
    };
    Ok(async move {
        tokio::select! {
            () = orphaned => {}
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        cancel.set();
    })
}
