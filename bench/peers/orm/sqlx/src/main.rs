//! sqlx: one connection without a pool, cached statements, columns by index as its checked macros
//! read them. With `BENCH_ORM_VARIANT=postgres`, it runs on PostgreSQL.

mod postgres;
mod row;
mod sqlite;

use std::process::ExitCode;

use bench_orm_workload::run;

fn main() -> ExitCode {
    match std::env::var("BENCH_ORM_VARIANT").as_deref() {
        Ok("postgres") => run::<postgres::OnPostgres>(),
        _ => run::<sqlite::OnSqlite>(),
    }
}
