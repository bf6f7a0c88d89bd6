# SPDX-License-Identifier: Apache-2.0
#
# embed(FILE.cc NAMESPACE NAME FILE [NAME FILE ...]): writes a source with the content of files as
# constants. It is written again when one of them changes. A FILE that was not found (find_file's
# NOTFOUND) makes an empty text.
function(embed source namespace)
  set(text "// Made by cmake/embed.cmake.\n")
  while(ARGN)
    list(POP_FRONT ARGN name file)
    set(content "")
    if(file)
      file(READ ${file} content)
      set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    endif()
    string(APPEND text "namespace ${namespace} {\n"
      "extern const char* const ${name};\n"
      "const char* const ${name} = R\"~embedded~(${content})~embedded~\";\n}\n")
  endwhile()
  file(CONFIGURE OUTPUT ${source} CONTENT "@text@" @ONLY)
endfunction()
