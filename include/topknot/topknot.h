// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Topknot: sparse allreduce for data-parallel training over slow networks. Start here.
///
///   engine.h       gradients in, their mean out, while backward goes on: for training loops
///   budget.h       how often to exchange, how much and in how many bits, for a budget of bytes
///   catalog.h      make a compressor, memory or collective by name: "oktopk:tau=64"
///   collective.h   Collective::reduce, and the law that every algorithm keeps
///   compressor.h   Compressor::select: which coordinates are worth sending
///   transports.h   ranks as threads or MPI processes, and a channel that counts
///   simulated.h    ranks on a virtual clock, over a network of any speed
///   error.h        the errors that are thrown, by type

#include "topknot/budget.h"      // IWYU pragma: export
#include "topknot/catalog.h"     // IWYU pragma: export
#include "topknot/collective.h"  // IWYU pragma: export
#include "topknot/compressor.h"  // IWYU pragma: export
#include "topknot/engine.h"      // IWYU pragma: export
#include "topknot/error.h"       // IWYU pragma: export
#include "topknot/layout.h"      // IWYU pragma: export
#include "topknot/memory.h"      // IWYU pragma: export
#include "topknot/params.h"      // IWYU pragma: export
#include "topknot/schedule.h"    // IWYU pragma: export
#include "topknot/simulated.h"   // IWYU pragma: export
#include "topknot/sparse.h"      // IWYU pragma: export
#include "topknot/state.h"       // IWYU pragma: export
#include "topknot/trace.h"       // IWYU pragma: export
#include "topknot/transport.h"   // IWYU pragma: export
#include "topknot/transports.h"  // IWYU pragma: export
