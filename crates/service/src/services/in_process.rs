//! Calls of services in this process.

use std::sync::Arc;

use marmota_model::Result;

use super::{Services, Settings};
use crate::call::arguments::Streams;
use crate::client::{CallerInside, Client, InProcess, Subscriber};
use crate::peer::Known;
use crate::transfer::{Answer, ChunkStream};

impl Client {
    /// Creates a client for services of this process. Calls pass the same checks and codecs as
    /// remote calls.
    #[must_use]
    pub fn in_process(services: &Services) -> Self {
        Self::inside(services.local(), None)
    }

    /// Creates a client for services of this process, which can call back the services `offered`
    /// ([`crate::Call::client`]).
    #[must_use]
    pub fn in_process_offering(services: &Services, offered: &Services) -> Self {
        Self::inside(services.local(), Some(offered.local()))
    }
}

impl Services {
    fn local(&self) -> Arc<dyn InProcess> {
        Arc::<Settings>::clone(&self.0)
    }
}

impl InProcess for Settings {
    fn known(&self, service: &str) -> Result<Known> {
        self.service(service).map(|hosted| hosted.known())
    }

    fn begin(
        &self,
        method: &str,
        arguments: &[u8],
        streams: Vec<ChunkStream>,
        caller: CallerInside,
    ) -> Result<Answer> {
        let mut origin = self.own_origin()?;
        origin.back = caller.back;
        origin.subscriber = Some(Arc::new(Subscriber::in_process(&caller.owned)));
        (origin.owned, origin.stub) = (Some(caller.owned), caller.stub);
        let target = self.target(method)?;
        let streams = Streams::Given(streams.into_iter().map(Some).collect());
        let arguments = target.arguments(arguments)?.with_streams(streams, self.limits);
        target.call(origin, arguments)
    }
}
