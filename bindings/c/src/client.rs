//! Clients: calls of services of other processes.

use std::ffi::c_char;
use std::mem::MaybeUninit;

use marmota::service::Client;
use marmota::store::action::block_on;

use crate::foreign::{MarmotaText, entry, required};
use crate::handles::{self, MarmotaHandle, Object};
use crate::store::lend_text_to;

/// A connection to the services of a process.
struct ClientObject(Client);

impl Object for ClientObject {
    const KIND: u8 = 9;
    const NAME: &'static str = "client";
}

/// Connects to the services of a server, by a URL such as "http://host:8080/services", "ws:", "https:",
/// "wss:" or "unix:/run/app.sock". `token` is the token of a login or a key, or null. A connection that
/// breaks is made again.
///
/// Ownership: end it with `marmota_client_free`.
/// Threads: the client may be used on all threads at once.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_client_connect(
    url: MarmotaText,
    token: MarmotaText,
    client: Option<&mut MaybeUninit<MarmotaHandle>>,
) -> i32 {
    entry(|| {
        let client = required(client, "client")?;
        let mut builder = Client::builder(url.get("url")?);
        if let Some(token) = token.optional("token")? {
            builder = builder.token(token);
        }
        client.write(handles::add(ClientObject(builder.connect()?))?);
        Ok(())
    })
}

/// Calls a method, such as "calculator.add", with a JSON object of its arguments by name, or an array.
/// Returns the result as JSON. `length` may be null.
///
/// Ownership: the text is lent until the thread's next call but one that lends.
/// Threads: any thread. It waits for the result, 30 seconds at most.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_client_call(
    client: MarmotaHandle,
    method: MarmotaText,
    arguments: MarmotaText,
    json: Option<&mut MaybeUninit<*const c_char>>,
    length: Option<&mut MaybeUninit<usize>>,
) -> i32 {
    entry(|| {
        let client = handles::find::<ClientObject>(client)?;
        let (method, arguments) = (method.get("method")?, arguments.get("arguments")?);
        let result = block_on(client.0.call_json(method, arguments))?;
        lend_text_to(&result, (json, "json"), length)
    })
}

/// Ends a client's connection, and frees its handle. Calls that run on other threads end first.
///
/// Threads: any thread.
#[unsafe(no_mangle)]
pub extern "C" fn marmota_client_free(client: MarmotaHandle) -> i32 {
    entry(|| handles::remove::<ClientObject>(client).map(drop))
}
