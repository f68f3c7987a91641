//! The log, by callback.

use std::ffi::c_char;

use log::{LevelFilter, Log, Metadata, Record};
use parking_lot::RwLock;

use crate::data::cursor::c_name;
use crate::foreign::{MarmotaContext, entry};
use crate::status::Failure;
use marmota::{Error, ErrorKind};

/// Receives a message of the log: its level (1 error, 2 warning, 3 information, 4 details), the part of
/// the program, the text. It runs on any thread, also on several at once.
pub type MarmotaLogCallback = Option<
    unsafe extern "C" fn(
        level: u32,
        target: *const c_char,
        message: *const c_char,
        context: MarmotaContext,
    ),
>;

static CALLBACK: RwLock<(MarmotaLogCallback, Option<MarmotaContext>)> = RwLock::new((None, None));

struct CallbackLog;

impl Log for CallbackLog {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.level() <= log::max_level()
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let (callback, context) = *CALLBACK.read();
        let (Some(callback), Some(context)) = (callback, context) else { return };
        let (target, message) = (c_name(record.target()), c_name(&record.args().to_string()));
        // SAFETY: the callback has this signature; the texts live until it returns.
        unsafe { callback(record.level() as u32, target.as_ptr(), message.as_ptr(), context) };
    }

    fn flush(&self) {}
}

/// Sets the function that receives the messages of the log, up to `level` (0 none, 1 errors, 2
/// warnings, 3 information, 4 details); null for none. Default: none. A call that is running when the
/// function is replaced may still use the earlier one.
///
/// Threads: any thread. The callback runs on all threads and must not call `marmota_log_set`.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_log_set(
    callback: MarmotaLogCallback,
    context: MarmotaContext,
    level: u32,
) -> i32 {
    entry(|| {
        let filter = match level {
            0 => LevelFilter::Off,
            1 => LevelFilter::Error,
            2 => LevelFilter::Warn,
            3 => LevelFilter::Info,
            4 => LevelFilter::Debug,
            _ => return Err(Failure::argument(format!("level {level}: use 0 to 4"))),
        };
        static INSTALLED: std::sync::Once = std::sync::Once::new();
        let mut failed = false;
        INSTALLED.call_once(|| failed = log::set_logger(&CallbackLog).is_err());
        if failed {
            let message = "another part of the program has set the log already";
            return Err(Error::new(ErrorKind::Conflict, message).into());
        }
        *CALLBACK.write() = (callback, Some(context));
        log::set_max_level(filter);
        Ok(())
    })
}
