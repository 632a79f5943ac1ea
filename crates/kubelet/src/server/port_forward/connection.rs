//! One connection to one port.

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;

use super::Target;
use crate::server::chunk::{self, Gone, Output};

impl Target {
    /// Until both directions have ended. What goes wrong is told on `error`.
    pub(super) async fn forward(
        &self,
        port: u16,
        input: mpsc::Receiver<Bytes>,
        output: Output,
        error: Output,
    ) {
        let problem = match self.copy(port, input, &output).await {
            Ok(()) => Bytes::new(),
            Err(err) => {
                let err = stdx::error_chain(&err);
                let text = format!(
                    "error forwarding port {port} to pod {}, uid {}: {err}",
                    self.pod, self.uid
                );
                text.into()
            }
        };
        // The client is gone: nobody wants to know.
        let _ = error.finish(problem).await;
        let _ = output.finish(Bytes::new()).await;
    }

    async fn copy(
        &self,
        port: u16,
        mut input: mpsc::Receiver<Bytes>,
        output: &Output,
    ) -> Result<(), node_api::Error> {
        let connection = self.containers.connect(&self.sandbox, port).await?;
        let (mut reader, mut writer) = tokio::io::split(connection);
        let to_pod = async {
            while let Some(bytes) = input.recv().await {
                if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
                    // The pod has closed its end; whatever it still sends is read below.
                    return;
                }
            }
            let _ = writer.shutdown().await;
        };
        let from_pod = async {
            let mut buffer = BytesMut::with_capacity(chunk::SIZE);
            loop {
                buffer.reserve(chunk::SIZE);
                let read = reader.read_buf(&mut buffer).await;
                let read = read.map_err(|err| {
                    node_api::Error::node(format!("reading from port {port}"), err)
                })?;
                if read == 0 || output.send(buffer.split().freeze()).await == Err(Gone) {
                    // The client's local connection ends with this.
                    let _ = output.finish(Bytes::new()).await;
                    return Ok(());
                }
            }
        };
        // A pod that has closed its end takes nothing more either, as far as anybody can see.
        tokio::select! {
            biased;
            ended = from_pod => ended,
            never = async { to_pod.await; std::future::pending::<std::convert::Infallible>().await } => match never {},
        }
    }
}
