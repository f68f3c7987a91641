//! Measures apalis: no-op jobs that are enqueued, 1,000 at once, and finished, in jobs a second.
//! Arguments: the URL of an empty PostgreSQL database, and the number of jobs.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use apalis::prelude::*;
use apalis_postgres::{Config, PostgresStorage, queries};
use sqlx::postgres::PgPoolOptions;

const QUEUE: &str = "nothing";
const BATCH: usize = 1_000;
/// Jobs in execution, each with a connection while it is marked as done.
const CONCURRENCY: usize = 64;

static STARTED: AtomicUsize = AtomicUsize::new(0);

async fn nothing(_number: usize) -> Result<(), BoxDynError> {
    STARTED.fetch_add(1, Ordering::Relaxed);
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run())
}

async fn run() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or("the URL of the database is missing")?;
    let jobs: usize = arguments.next().ok_or("the number of jobs is missing")?.parse()?;
    let pool = PgPoolOptions::new().max_connections(CONCURRENCY as u32).connect(&url).await?;
    PostgresStorage::setup(&pool).await?;
    let strategy = Strategy::new().interval(Duration::from_millis(20));
    let backend = PostgresStorage::new(&pool)
        .with_config(Config::default().queue(QUEUE).batch_size(BATCH))
        .with_pubsub()
        .poll_with_strategy(strategy);
    let worker = WorkerBuilder::new("worker")
        .backend(backend)
        .concurrency(CONCURRENCY)
        .parallelize(tokio::spawn)
        .build(nothing);
    let running = tokio::spawn(worker.run());
    let began = Instant::now();
    let mut connection = pool.acquire().await?;
    for first in (0..jobs).step_by(BATCH) {
        let tasks = (first..jobs.min(first + BATCH))
            .map(|number| TaskBuilder::new(number.to_string().into_bytes()).build())
            .collect();
        queries::push_tasks(&mut *connection, QUEUE, tasks).await?;
    }
    while STARTED.load(Ordering::Relaxed) < jobs {
        if running.is_finished() {
            running.await??;
            return Err("the worker has ended".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let count = "SELECT count(*) FROM apalis.jobs WHERE status <> 'Done'";
    while sqlx::query_scalar::<_, i64>(count).fetch_one(&mut *connection).await? > 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!("{:.0}", jobs as f64 / began.elapsed().as_secs_f64());
    std::process::exit(0);
}
