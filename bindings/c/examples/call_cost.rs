//! The cost of a call: a row is read by its key through the C interface, and by Rust in the same
//! process. Argument: the path of libmarmota.so.
//!
//! `cargo build --release -p marmota-c && cargo run --release -p marmota-c --example call_cost --
//! target/release/libmarmota.so`

use std::error::Error;
use std::ffi::{CStr, c_char};
use std::hint::black_box;
use std::time::Instant;

use libloading::{Library, Symbol};
use marmota::app::AppFile;
use marmota::model::{NoRows, ValueRef};
use marmota::store::operation::Operation;

const TABLES: &CStr = c"{\"tables\":{\"person\":{\"fields\":{\
    \"id\":{\"kind\":\"integer\",\"role\":\"key\"},\
    \"first_name\":{\"kind\":\"text\"},\"last_name\":{\"kind\":\"text\"},\
    \"year_of_birth\":{\"kind\":\"integer\"},\"year_of_death\":{\"kind\":\"integer\"}}}}}";
const ROWS: i64 = 10_000;
const CALLS: i64 = 200_000;
const ROUNDS: usize = 9;

/// `marmota_value`.
#[repr(C)]
#[derive(Clone, Copy)]
struct CValue {
    kind: u32,
    integer: i64,
    real: f64,
    data: *const u8,
    length: usize,
}

type OpenStore = unsafe extern "C" fn(*const c_char, *const c_char, u32, *mut u64) -> i32;
type GetRow = unsafe extern "C" fn(u64, u32, *const CValue, *mut *const CValue, *mut usize) -> i32;
type InsertRow = unsafe extern "C" fn(u64, u32, *const CValue, usize, *mut CValue) -> i32;

/// Returns the median of several rounds, in nanoseconds for each call.
fn median(mut round: impl FnMut()) -> f64 {
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            round();
            start.elapsed().as_nanos() as f64 / CALLS as f64
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[ROUNDS / 2]
}

fn main() -> Result<(), Box<dyn Error>> {
    let path = std::env::args().nth(1).ok_or("pass the path of libmarmota.so")?;
    // SAFETY: the library is Marmota's; loading it runs no code of others.
    let library = unsafe { Library::new(&path)? };
    // SAFETY: the functions have these signatures in the header.
    let (open, insert, get): (Symbol<'_, OpenStore>, Symbol<'_, InsertRow>, Symbol<'_, GetRow>) = unsafe {
        (
            library.get(b"marmota_store_open")?,
            library.get(b"marmota_row_insert")?,
            library.get(b"marmota_row_get")?,
        )
    };
    for url in [c"memory:", c"sqlite::memory:"] {
        let builder = marmota::open(url.to_str()?)?;
        let rust = AppFile::parse_json(TABLES.to_str()?)?.add_to(builder).open()?;
        let table = rust.table("person")?;
        let mut c = 0;
        // SAFETY: texts with a NUL, and a place for the handle.
        assert_eq!(unsafe { open(url.as_ptr(), TABLES.as_ptr(), 0, &raw mut c) }, 0);
        let empty = CValue { kind: 0, integer: 0, real: 0.0, data: std::ptr::null(), length: 0 };
        let text = |text: &'static str| CValue {
            kind: 6,
            data: text.as_ptr(),
            length: text.len(),
            ..empty
        };
        for id in 1..=ROWS {
            let (first, last) = ("First name", "Last name");
            let row = [
                ValueRef::Int(id),
                ValueRef::Text(first),
                ValueRef::Text(last),
                ValueRef::Int(1800),
                ValueRef::Int(1860),
            ];
            rust.run(&mut Operation::insert(&table, &row), &mut NoRows)?;
            let int = |integer| CValue { kind: 3, integer, ..empty };
            let row = [int(id), text(first), text(last), int(1800), int(1860)];
            let mut key = empty;
            // SAFETY: five values, and a place for the key.
            assert_eq!(unsafe { insert(c, 0, row.as_ptr(), 5, &raw mut key) }, 0);
        }
        let by_rust = median(|| {
            for call in 0..CALLS {
                let record = rust.get_record(&table, call % ROWS + 1).run();
                black_box(record.expect("a row"));
            }
        });
        let lent = median(|| {
            for call in 0..CALLS {
                let key = ValueRef::Int(call % ROWS + 1);
                let mut operation = Operation::Get { table: &table, key, fields: table.all() };
                let mut sum = 0;
                let mut sink = |row: &[ValueRef<'_>]| {
                    sum += row.len();
                    std::ops::ControlFlow::Continue(())
                };
                rust.run(&mut operation, &mut sink).expect("a row");
                black_box(sum);
            }
        });
        let by_c = median(|| {
            for call in 0..CALLS {
                let key = CValue { kind: 3, integer: call % ROWS + 1, ..empty };
                let (mut row, mut count) = (std::ptr::null(), 0);
                // SAFETY: a key, and places for the row and its length.
                let code = unsafe { get(c, 0, &raw const key, &raw mut row, &raw mut count) };
                assert_eq!((code, count), (0, 5));
                black_box(row);
            }
        });
        println!(
            "{}: Rust {by_rust:.0} ns (a record), {lent:.0} ns (a lent row); C {by_c:.0} ns: {:+.0} ns",
            url.to_str()?,
            by_c - by_rust
        );
    }
    Ok(())
}
