//! Any bytes as a connection to the front, after HTTP/2's preface: nothing of it may panic or hang.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use etcd::front::{self, Config};
use kvstore::memory::Memory;
use lifecycle::Tasks;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

libfuzzer_sys::fuzz_target!(|input: &[u8]| {
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    tokio.block_on(async {
        let (mut ours, theirs) = tokio::io::duplex(1 << 20);
        let tasks = Tasks::new();
        let config = Config::new(Vec::new(), "fuzz");
        let client = async {
            let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
            let _ = ours.write_all(preface).await;
            let _ = ours.write_all(input).await;
            let _ = ours.shutdown().await;
            let _ = ours.read_to_end(&mut Vec::new()).await;
        };
        let store = Arc::new(Memory::new());
        let served = async { tokio::join!(front::serve_connection(store, &config, theirs, &tasks), client) };
        tokio::time::timeout(Duration::from_secs(30), served).await.expect("it ends with its peer");
        tasks.shutdown(Duration::from_secs(10)).await.expect("nothing is left");
    });
});
