//! A served store handles any packets without a panic.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use marmota_memory::Memory;
use marmota_model::{Field, Kind, Role, Schema};
use marmota_remote::Service;
use marmota_store::Store;

fn service() -> &'static Service {
    static SERVICE: OnceLock<Service> = OnceLock::new();
    SERVICE.get_or_init(|| {
        let id = Field::new("id", Kind::I64).role(Role::Key);
        let fields = vec![id, Field::new("text", Kind::TEXT), Field::new("json", Kind::Json)];
        let store = Store::builder(Memory::new()).schema(Schema::new("t", fields)).open();
        Service::new(&store.expect("a memory store opens"))
    })
}

fuzz_target!(|bytes: &[u8]| {
    let _ = service().answer(bytes);
    // A packet with one operation.
    let length = (bytes.len() as u32).to_le_bytes();
    let _ = service().answer(&[&length, &[1, 0, 0, 0], bytes].concat());
});
