/* symbols.c - see symbols.h. */
#define _GNU_SOURCE
#include "xkernel/engine/symbols.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct xk_symbols {
	const uint8_t *image;
	size_t size;
	const ElfW(Sym) * table;
	size_t count;
	const char *names;
	size_t names_size;
	uintptr_t moved; /* load address minus link address */
};

/* Called for the executable first; ends the iteration. */
static int
symbols_note_moved(struct dl_phdr_info *info, size_t size, void *moved)
{
	(void)size;
	*(uintptr_t *)moved = info->dlpi_addr;
	return 1;
}

/* Returns section number `index`; NULL: it does not lie in the file. */
static const ElfW(Shdr) * symbols_section(const struct xk_symbols *symbols, unsigned index)
{
	const ElfW(Ehdr) *header = (const void *)symbols->image;
	const ElfW(Shdr) *section = (const void *)(symbols->image + header->e_shoff);

	if (index >= header->e_shnum || header->e_shoff + (index + 1) * sizeof(*section) > symbols->size)
		return NULL;
	section += index;
	return section->sh_offset + section->sh_size <= symbols->size ? section : NULL;
}

static bool
symbols_read(struct xk_symbols *symbols)
{
	const ElfW(Ehdr) *header = (const void *)symbols->image;
	const ElfW(Shdr) * section, *names;

	if (symbols->size < sizeof(*header) || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
		return false;
	for (unsigned i = 0; (section = symbols_section(symbols, i)) != NULL; i++)
		if (section->sh_type == SHT_SYMTAB)
			break;
	names = section == NULL ? NULL : symbols_section(symbols, section->sh_link);
	if (names == NULL)
		return false;
	symbols->table = (const void *)(symbols->image + section->sh_offset);
	symbols->count = section->sh_size / sizeof(*symbols->table);
	symbols->names = (const char *)symbols->image + names->sh_offset;
	symbols->names_size = names->sh_size;
	return names->sh_size > 0 && symbols->names[names->sh_size - 1] == '\0';
}

struct xk_symbols *
xk_symbols_new(void)
{
	int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	struct xk_symbols *symbols = calloc(1, sizeof(*symbols));
	void *image = MAP_FAILED;
	struct stat status;

	if (symbols != NULL && file >= 0 && fstat(file, &status) == 0) {
		symbols->size = (size_t)status.st_size;
		image = mmap(NULL, symbols->size, PROT_READ, MAP_PRIVATE, file, 0);
	}
	if (file >= 0)
		close(file);
	if (image == MAP_FAILED) {
		free(symbols);
		return NULL;
	}
	symbols->image = image;
	if (!symbols_read(symbols)) {
		xk_symbols_free(symbols);
		return NULL;
	}
	dl_iterate_phdr(symbols_note_moved, &symbols->moved);
	return symbols;
}

void
xk_symbols_free(struct xk_symbols *symbols)
{
	if (symbols == NULL)
		return;
	munmap((void *)(uintptr_t)symbols->image, symbols->size);
	free(symbols);
}

/* Static symbols follow the symbol of their source file. */
bool
xk_symbol_find(const struct xk_symbols *symbols, uintptr_t address, struct xk_symbol *symbol)
{
	const char *file = NULL;

	for (size_t i = 0; symbols != NULL && i < symbols->count; i++) {
		const ElfW(Sym) *s = &symbols->table[i];
		unsigned type = s->st_info & 0xf; /* ELF64_ST_TYPE and ELF32_ST_TYPE are the same */
		const char *name = s->st_name < symbols->names_size ? symbols->names + s->st_name : "";

		if (type == STT_FILE)
			file = name;
		if ((type != STT_FUNC && type != STT_OBJECT) || s->st_shndx == SHN_UNDEF)
			continue;
		if (address - symbols->moved - s->st_value >= s->st_size)
			continue;
		*symbol = (struct xk_symbol){ .name = name,
					      .file = s->st_info >> 4 == STB_LOCAL ? file : NULL,
					      .start = s->st_value + symbols->moved,
					      .size = s->st_size };
		return true;
	}
	return false;
}
