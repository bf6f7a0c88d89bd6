// SPDX-License-Identifier: Apache-2.0
#include "collectives/primitives/host_residual.h"

#include <string>

#include "core/merge.h"
#include "core/plant.h"
#include "core/select.h"
#include "topknot/collective.h"
#include "topknot/error.h"

namespace topknot {

Reduced Collective::reduce(std::span<float> residual, std::span<float> grad,
                           std::size_t k, std::span<float> sum) {
  collective::HostResidual host(residual);
  return reduce(host, grad, k, sum);
}

namespace collective {

bool HostResidual::fold(std::span<float> grad) { return core::fold(values_, grad); }

bool HostResidual::select(Compressor& compressor, std::span<float> grad, std::size_t k,
                          Sparse& out) {
  return compressor.select(values_, grad, k, out);
}

void HostResidual::undo_fold(std::span<const float> grad) {
  core::undo_fold(values_, grad);
}

void HostResidual::gather(std::span<const std::uint32_t> index, std::span<float> value) {
  core::gather(values_, index, value);
}

void HostResidual::settle(std::span<const std::uint32_t> index,
                          std::span<const float> error) {
  if (error.empty() || TOPKNOT_PLANT(rounding_error_lost))
    return core::erase(index, values_);
  if (error.size() != index.size())
    throw ContractError("There are " + std::to_string(error.size()) +
                        " rounding errors for " + std::to_string(index.size()) +
                        " positions.");
  core::scatter({index, error}, values_);
}

void HostResidual::add(SparseView pairs) { core::scatter_add(pairs, values_); }

}  // namespace collective
}  // namespace topknot
