/* xk_run_table.c - see xk_run_private.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "tools/xk/xk_run_private.h"

enum { TABLE_WIDTH = 110, TABLE_ROWS = 64 };

void
run_table_begin(struct run_table *table, unsigned columns)
{
	*table = (struct run_table){ .columns = columns };
}

void
run_table_end(struct run_table *table)
{
	for (unsigned i = 0; i < table->row_count; i++) {
		free(table->rows[i].name);
		free(table->rows[i].counts);
	}
	free(table->rows);
}

void
run_table_column(struct run_table *table, unsigned column)
{
	table->column = column;
	table->next_row = 0;
}

/* Inserts a row at next_row. False: no memory. */
static bool
table_insert(struct run_table *table, const char *name)
{
	struct run_row row, *grown = table->rows;

	if (table->row_count == table->row_room) {
		grown = reallocarray(table->rows, table->row_room + TABLE_ROWS, sizeof(*grown));
		if (grown == NULL)
			return false;
		table->rows = grown;
		table->row_room += TABLE_ROWS;
	}
	row = (struct run_row){ strdup(name), malloc(table->columns * sizeof(*row.counts)) };
	if (row.name == NULL || row.counts == NULL) {
		free(row.name);
		free(row.counts);
		return false;
	}
	for (unsigned i = 0; i < table->columns; i++)
		row.counts[i] = RUN_ABSENT;
	memmove(&grown[table->next_row + 1], &grown[table->next_row],
		(table->row_count - table->next_row) * sizeof(*grown));
	grown[table->next_row] = row;
	table->row_count++;
	return true;
}

void
run_table_tell(void *to, const char *name, uint64_t count)
{
	struct run_table *table = to;
	unsigned i = 0;

	while (i < table->row_count && strcmp(table->rows[i].name, name) != 0)
		i++;
	if (i < table->row_count)
		table->next_row = i;
	else if (!table_insert(table, name)) {
		table->no_memory = true;
		return;
	}
	table->rows[table->next_row++].counts[table->column] = count;
}

/* ---- printing ---- */

static size_t
table_node_len(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot == NULL ? 0 : (size_t)(dot - name);
}

bool
run_table_has(const struct run_table *table, const char *word, size_t len)
{
	for (unsigned i = 0; i < table->row_count; i++)
		if (len > 0 && table_node_len(table->rows[i].name) == len &&
		    memcmp(table->rows[i].name, word, len) == 0)
			return true;
	return false;
}

static bool
table_is_shown(const struct run_row *row, const char *own, const char *show)
{
	size_t node_len = table_node_len(row->name), len;
	const char *node = node_len == 0 ? own : row->name;

	if (node_len == 0)
		node_len = strlen(own);
	for (; show != NULL && *show != '\0'; show += len + (show[len] == ',')) {
		len = strcspn(show, ",");
		if (len == node_len && memcmp(show, node, len) == 0)
			return true;
	}
	return show == NULL;
}

static bool
table_is_zero(const struct run_row *row, unsigned first, unsigned end)
{
	for (; first < end; first++)
		if (row->counts[first] != 0 && row->counts[first] != RUN_ABSENT)
			return false;
	return true;
}

static void
table_print_count(uint64_t count, int width, FILE *out)
{
	if (count == RUN_ABSENT)
		fprintf(out, " %*s", width, "-");
	else
		fprintf(out, " %*" PRIu64, width, count);
}

/* Columns have one width, that of the widest name or count. */
static int
table_column_width(const struct run_table *table, const char *const *heads)
{
	int width = 8;

	for (unsigned i = 0; i < table->columns; i++)
		if ((int)strlen(heads[i]) > width)
			width = (int)strlen(heads[i]);
	for (unsigned i = 0; i < table->row_count; i++)
		for (unsigned k = 0; k < table->columns; k++) {
			uint64_t count = table->rows[i].counts[k];
			int len = count == RUN_ABSENT ? 1 : snprintf(NULL, 0, "%" PRIu64, count);

			if (len > width)
				width = len;
		}
	return width;
}

void
run_table_print(const struct run_table *table, const char *const *heads, const char *own, const char *show, FILE *out)
{
	int names = 24, width = table_column_width(table, heads);
	unsigned fit;

	for (unsigned i = 0; i < table->row_count; i++)
		if (table_is_shown(&table->rows[i], own, show) && (int)strlen(table->rows[i].name) > names)
			names = (int)strlen(table->rows[i].name);
	fit = TABLE_WIDTH > names + width + 1 ? (unsigned)((TABLE_WIDTH - names) / (width + 1)) : 1;
	for (unsigned first = 0; first < table->columns; first += fit) {
		unsigned end = first + fit < table->columns ? first + fit : table->columns;
		bool begun = false;

		for (unsigned i = 0; i < table->row_count; i++) {
			const struct run_row *row = &table->rows[i];

			if (!table_is_shown(row, own, show) || table_is_zero(row, first, end))
				continue;
			for (unsigned k = first; !begun && k < end; k++)
				fprintf(out, "%*s%s", k == first ? names + 1 + width : width + 1, heads[k],
					k + 1 == end ? "\n" : "");
			begun = true;
			fprintf(out, "%-*s", names, row->name);
			for (unsigned k = first; k < end; k++)
				table_print_count(row->counts[k], width, out);
			fputc('\n', out);
		}
		if (begun)
			fputc('\n', out);
	}
}
