//! The lock of a file as the sign that somebody owns what belongs to it.

use std::fs::File;
use std::time::Duration;

const ATTEMPTS: u32 = 20;
const WAIT: Duration = Duration::from_millis(10);

/// False: another process has it. A process that the last owner was just starting has the owner's
/// files until its own program begins, so that the owner may be gone and the lock not yet: a moment
/// is waited for that.
pub fn lock_file(file: &File) -> bool {
    for _ in 0..ATTEMPTS {
        if file.try_lock().is_ok() {
            return true;
        }
        std::thread::sleep(WAIT);
    }
    false
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::lock_file;

    #[test]
    fn a_lock_that_is_soon_free_is_had_and_one_that_is_not_is_refused() {
        let path = std::env::temp_dir().join(format!("stdx-lock-{}", std::process::id()));
        let open =
            || OpenOptions::new().write(true).create(true).truncate(false).open(&path).unwrap();
        let (first, second) = (open(), open());
        assert!(lock_file(&first));
        assert!(!lock_file(&second));
        let holder = std::thread::spawn(move || {
            std::thread::sleep(super::WAIT);
            drop(first);
        });
        assert!(lock_file(&second));
        holder.join().unwrap();
        std::fs::remove_file(path).unwrap();
    }
}
