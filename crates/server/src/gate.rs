//! What a request costs its client: a token of a class, from the bucket of its network.

use std::sync::Arc;
use std::time::Instant;

use crate::answer::Refusal;
use crate::config::Settings;
use crate::limiter::{Class, Limiter};
use crate::metrics::{Metrics, count};
use crate::request::Request;

/// The one who takes tokens.
pub(crate) struct Gate {
    settings: Settings,
    limiter: Limiter,
    metrics: Arc<Metrics>,
}

impl Gate {
    pub(crate) fn new(settings: Settings, metrics: Arc<Metrics>) -> Self {
        Self { settings, limiter: Limiter::default(), metrics }
    }

    /// Takes a token, unless the network is exempt.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooMany`] if there is none.
    pub(crate) fn charge(&self, request: &Request, class: Class) -> Result<(), Refusal> {
        let config = self.settings.load();
        let Some(network) = config.rates.network(request.client, request.via) else {
            return Ok(());
        };
        let taken = self.limiter.take(&config.rates, network, class, Instant::now());
        taken.map_err(|seconds| {
            count(&self.metrics.rate_limited, 1);
            Refusal::TooMany { seconds }
        })
    }
}
