//! `echo`: with `tcp` or `udp` a server that sends back what comes; otherwise prints its arguments.

use anyhow::{Context as _, Result};
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::LocalSet;

use crate::every_address::every_address;
use crate::stop::Stop;

#[derive(clap::Args)]
pub(crate) struct Flags {
    /// `tcp` or `udp` to serve; anything else is printed
    words: Vec<String>,
    /// Where to listen
    #[arg(long, value_name = "N", default_value_t = 7)]
    port: u16,
    /// Answer with this pod's name first
    #[arg(long)]
    name: bool,
}

pub(crate) async fn run(flags: Flags) -> Result<()> {
    let greeting = if flags.name {
        format!("{} ", rustix::system::uname().nodename().to_string_lossy())
    } else {
        String::new()
    };
    let words: Vec<&str> = flags.words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["tcp"] => serve(tcp(flags.port, greeting)).await,
        ["udp"] => serve(udp(flags.port, greeting)).await,
        words => {
            println!("{}", words.join(" "));
            Ok(())
        }
    }
}

async fn serve(server: impl Future<Output = Result<()>>) -> Result<()> {
    let mut stop = Stop::listen()?;
    let connections = LocalSet::new();
    tokio::select! {
        biased;
        () = stop.wait() => Ok(()),
        ended = connections.run_until(server) => ended,
    }
}

async fn tcp(port: u16, greeting: String) -> Result<()> {
    let listener = TcpListener::bind(&every_address(port)[..])
        .await
        .with_context(|| format!("listening on TCP port {port}"))?;
    println!("echo on TCP port {port}");
    loop {
        // A connection that was reset before we took it is nobody's loss.
        let Ok((mut stream, _)) = listener.accept().await else { continue };
        let greeting = greeting.clone();
        tokio::task::spawn_local(async move {
            let (mut reader, mut writer) = stream.split();
            // The client's end of it is the end.
            if writer.write_all(greeting.as_bytes()).await.is_ok() {
                let _ = tokio::io::copy(&mut reader, &mut writer).await;
            }
        });
    }
}

async fn udp(port: u16, greeting: String) -> Result<()> {
    let socket = UdpSocket::bind(&every_address(port)[..])
        .await
        .with_context(|| format!("listening on UDP port {port}"))?;
    println!("echo on UDP port {port}");
    let mut buffer = vec![0; 64 * 1024];
    loop {
        // ICMP errors of earlier answers are reported here; the next datagram is another client's.
        let Ok((length, from)) = socket.recv_from(&mut buffer).await else { continue };
        let answer = [greeting.as_bytes(), &buffer[..length]].concat();
        let _ = socket.send_to(&answer, from).await;
    }
}
