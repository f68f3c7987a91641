//! The statements by mysql_async.

use crate::{Database, FORTUNES, WORLD, update_of};
use mysql_async::prelude::Queryable;
use mysql_async::{Error, Opts, OptsBuilder, Params, PoolConstraints, PoolOpts, Value};
use world::{Fortune, World};

/// A pool of connections, which keep their prepared statements.
pub(crate) struct Pool(mysql_async::Pool);

impl Database for Pool {
    type Error = Error;

    fn open(url: &str, connections: usize) -> Result<Self, Error> {
        // With a lower minimum, idle connections are closed at once and opened again.
        let constraints = PoolConstraints::new(connections, connections).unwrap_or_default();
        let pool = PoolOpts::new().with_constraints(constraints).with_reset_connection(false);
        let options = OptsBuilder::from_opts(Opts::from_url(url)?)
            .prefer_socket(false)
            .tcp_nodelay(true)
            .stmt_cache_size(600)
            .pool_opts(pool);
        Ok(Self(mysql_async::Pool::new(options)))
    }

    async fn worlds(&self, ids: Vec<i32>) -> Result<Vec<World>, Error> {
        let mut connection = self.0.get_conn().await?;
        let mut worlds = Vec::with_capacity(ids.len());
        for id in ids {
            let found: Option<(i32, i32)> = connection.exec_first(WORLD, (id,)).await?;
            worlds.extend(found.map(|(id, random_number)| World { id, random_number }));
        }
        Ok(worlds)
    }

    async fn update(&self, ids: Vec<i32>) -> Result<Vec<World>, Error> {
        let mut worlds = self.worlds(ids).await?;
        let (text, values) = update_of(&mut worlds);
        let values = values.into_iter().map(Value::from).collect();
        self.0.get_conn().await?.exec_drop(text, Params::Positional(values)).await?;
        Ok(worlds)
    }

    async fn fortunes(&self) -> Result<Vec<Fortune>, Error> {
        let mut connection = self.0.get_conn().await?;
        connection.exec_map(FORTUNES, (), |(id, message)| Fortune { id, message }).await
    }
}
