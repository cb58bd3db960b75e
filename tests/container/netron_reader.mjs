// Opens a file with the reader inside the `netron` package and prints what it would show, as JSON.
// Usage: node netron_reader.mjs NETRON_FOLDER FILE

import { readFile } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, file] = process.argv.slice(2);

const load = (id) => import(pathToFileURL(join(folder, `${id}.js`)).href);

// What Netron's window gives its readers; here only files of its own folder.
const host = {
    type: 'Test',
    environment: () => undefined,
    require: (id) => load(id),
    asset: (name) => readFile(join(folder, name), 'utf-8'),
    request: (name) => readFile(join(folder, name), 'utf-8'),
    exception: (error) => {
        throw error;
    },
    event: () => undefined,
};

const value = (item) => ({
    name: item.name,
    type: item.type ? item.type.toString() : null,
    constant: item.initializer !== null,
});

const argument = (item) => ({ name: item.name, values: item.value.map(value) });

const attribute = (item) => [item.name, typeof item.value === 'bigint' ? Number(item.value) : item.value];

const node = (item) => ({
    type: item.type.name,
    category: item.type.category || '',
    name: item.name,
    attributes: Object.fromEntries(item.attributes.map(attribute)),
    inputs: item.inputs.map(argument),
    outputs: item.outputs.map(argument),
    // a layer of the vendor's that holds a compiled graph
    inner: item.type.nodes ? item.type.nodes.map(node) : null,
});

const graph = (item) => ({
    name: item.name,
    inputs: item.inputs.map(argument),
    outputs: item.outputs.map(argument),
    nodes: item.nodes.map(node),
});

const main = async () => {
    const base = await load('./base');
    const view = await load('./view');
    const content = await readFile(file);
    const context = {
        identifier: basename(file),
        stream: new base.BinaryStream(new Uint8Array(content)),
        entries: new Map(),
        asset: host.asset,
        request: host.request,
        require: host.require,
        error: host.exception,
    };
    const service = new view.ModelFactoryService(host);
    const model = await service.open(context);
    const shown = {
        format: model.format,
        name: model.name,
        producer: model.producer,
        runtime: model.runtime,
        graphs: model.modules.map(graph),
    };
    process.stdout.write(JSON.stringify(shown));
};

main().catch((error) => {
    process.stderr.write(`${error.name}: ${error.message}\n`);
    process.exitCode = 1;
});
