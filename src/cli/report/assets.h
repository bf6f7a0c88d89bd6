// SPDX-License-Identifier: Apache-2.0
//
// The files of page/ and the plotting library, which cmake/embed.cmake puts into the program.
#pragma once

namespace topknot::cli::assets {

extern const char* const kHtml;
extern const char* const kStyle;
extern const char* const kScript;
extern const char* const kPlots;
extern const char* const kChart;  ///< empty where it was not found at configure time

}  // namespace topknot::cli::assets
