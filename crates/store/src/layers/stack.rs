//! The layers of a store, in the order in which an operation passes them.
//!
//! To add a layer, write a file with a type that implements [`Layer`], and add it in two places
//! here: to [`Stack`], and to [`Layers::new`]. The order matters:
//! - Spans and counters come first, so that they include the time of the others.
//! - Rights come before what writes depend on them: a refused write makes no history entry.
//! - The steps of writes come before the cache, which has to be notified of the tables of history
//!   entries.

use std::sync::Arc;

use marmota_model::{Result, Table};

use crate::contract::audit::AuditLog;
use crate::contract::engine::Engine;
use crate::contract::invalidation_feed::InvalidationFeed;

use crate::layers::cache::CacheLayer;
use crate::layers::cache::row_cache::Cache;
use crate::layers::fallback::FallbackLayer;
use crate::layers::feed::ChangeFeed;
use crate::layers::feed::cache_subscription::CacheSubscription;
use crate::layers::handle::HandleContext;
use crate::layers::layer::Layer;
use crate::layers::metrics::MetricsLayer;
use crate::layers::metrics::meter::{Meter, Metering};
use crate::layers::replay::ReplayLayer;
use crate::layers::rights::RightsLayer;
use crate::layers::session::Sessions;
use crate::layers::steps::StepsLayer;
use crate::layers::steps::before_hooks::BeforeHooks;
use crate::layers::thread_slot::SLOTS;
use crate::layers::trace::TraceLayer;
use crate::rows::registry::Registry;

/// The layers, from the first to the last. It is one type, so the compiler sees all calls from one
/// layer to the next.
type Stack = TraceLayer<
    MetricsLayer<RightsLayer<ReplayLayer<StepsLayer<CacheLayer<FallbackLayer<Sessions>>>>>>,
>;

/// The state of an operation that waits, with a part of each layer.
pub(crate) type StackState = <Stack as Layer>::State;

/// The settings of the layers of a store, from its builder. The default has no layer but the
/// sessions.
#[derive(Default)]
pub(crate) struct LayerSettings {
    pub(crate) is_traced: bool,
    pub(crate) metering: Option<Metering>,
    pub(crate) audit_log: Option<AuditLog>,
    /// The hooks that are called before writes, if there are any.
    pub(crate) before_hooks: Option<BeforeHooks>,
    pub(crate) cache_bytes_max: Option<u64>,
    /// The table of commits, if the engine records changes, with the actor of each.
    pub(crate) commits: Option<Arc<Table>>,
}

/// The layers of a store, and the parts of them that the store shows: its counters, its cache and
/// its hooks.
pub(crate) struct Layers {
    pub(crate) stack: Stack,
    pub(crate) meter: Option<Arc<Meter>>,
    pub(crate) cache: Option<Arc<Cache>>,
    /// The hooks that are called before writes, if there are any.
    pub(crate) before_hooks: Option<Arc<BeforeHooks>>,
    /// True if an operation without limits on its rights can go directly to a session.
    is_plain: bool,
}

impl Layers {
    /// Assembles the layers on an engine. A layer that the settings do not enable passes operations
    /// on.
    pub(crate) fn new(
        engine: Box<dyn Engine>,
        registry: &Arc<Registry>,
        settings: LayerSettings,
    ) -> Self {
        let LayerSettings {
            is_traced,
            metering,
            audit_log,
            before_hooks,
            cache_bytes_max,
            commits,
        } = settings;
        let records_changes = commits.is_some();
        let meter = metering.map(|metering| Arc::new(Meter::new(metering, registry, SLOTS)));
        let cache =
            cache_bytes_max.map(|bytes_max| Arc::new(Cache::new(registry, bytes_max, SLOTS)));

        // The server of a remote store executes the actions of its deletes.
        let cascades = engine.capability().guarded_writes;
        let layer = FallbackLayer::new(Sessions::new(engine, records_changes));
        let layer = CacheLayer::new(cache.clone(), layer);
        let before_hooks = before_hooks.map(Arc::new);
        let layer = StepsLayer::new(audit_log, before_hooks.clone(), cascades, registry, layer);
        let is_plain =
            !is_traced && meter.is_none() && layer.is_idle() && cache.is_none() && !records_changes;
        let layer = RightsLayer::new(ReplayLayer::new(commits, layer));
        let layer = MetricsLayer::new(meter.clone(), layer);
        let stack = TraceLayer::new(is_traced, layer);
        Self { stack, meter, cache, before_hooks, is_plain }
    }

    /// Returns true if no layer above the sessions changes, counts or traces the operations of a
    /// handle. They go directly to [`Layers::sessions`]. It is determined once for each handle.
    pub(crate) const fn is_plain(&self, handle: &HandleContext) -> bool {
        self.is_plain && handle.rights.is_none() && handle.replica.is_none()
    }

    /// Returns the lowest layer.
    #[inline]
    pub(crate) fn sessions(&self) -> &Sessions {
        self.stack.sessions()
    }

    /// Subscribes the cache to the writes of others, on an engine that is notified of them, or to the
    /// change feed. It is called once the store is open.
    ///
    /// # Errors
    /// That of the engine.
    pub(crate) fn subscribe_cache(
        &self,
        registry: &Registry,
        feed: Option<&Arc<ChangeFeed>>,
    ) -> Result<()> {
        let Some(cache) = &self.cache else { return Ok(()) };
        let cache = Arc::new(InvalidationFeed::new(Arc::<Cache>::clone(cache)));
        let engine = &self.sessions().engine;
        match feed.filter(|_| engine.capability().polled_commits) {
            Some(feed) => {
                feed.subscribe(CacheSubscription::new(cache, registry.tables()));
                Ok(())
            }
            None => engine.subscribe_changes(registry.tables(), &cache),
        }
    }
}
