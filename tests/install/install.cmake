# SPDX-License-Identifier: Apache-2.0
# Installs ${build} into ${prefix}, which has nothing else in it afterwards.
file(REMOVE_RECURSE ${prefix})
execute_process(COMMAND ${CMAKE_COMMAND} --install ${build} --prefix ${prefix}
  COMMAND_ERROR_IS_FATAL ANY)
